// Between ModelInfo, by which a worker tells a frontend what its model takes, and the plain description that requests
// are decided by. All that the rules need goes both ways; digests, the id and the list of upsamplers do not.
#ifndef KINORA_SERVER_COMMON_MODEL_CONVERSION_H_
#define KINORA_SERVER_COMMON_MODEL_CONVERSION_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/request/model_description.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

v1::ModelInfo ToModelInfo(const ModelDescription& model, const std::string& id);

// Before the id of a LoRA, in ModelInfo.digests.
inline constexpr char kLoraDigest[] = "lora/";
// "sha256:HEX" of a LoRA's file; "" if it is not known.
std::string LoraDigest(const v1::ModelInfo& info, const std::string& id);

// Of the model's distilled LoRA, in the first stage of the recipe (distilled_share.h).
double DistilledShareOf(v1::Generation::Recipe recipe);

// FailedPrecondition naming the field that is missing, as in what a build described that knew less: no request can be
// decided by it.
absl::StatusOr<ModelDescription> ToModelDescription(const v1::ModelInfo& info);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_MODEL_CONVERSION_H_

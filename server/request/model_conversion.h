// Converts between ModelInfo, in which a worker describes its model to the frontend, and ModelDescription, which the
// request rules use. Everything that the rules need is converted both ways; digests, the id and the list of upsamplers
// are not.
#ifndef KINORA_SERVER_REQUEST_MODEL_CONVERSION_H_
#define KINORA_SERVER_REQUEST_MODEL_CONVERSION_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/request/model_description.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

v1::ModelInfo ToModelInfo(const ModelDescription& model, const std::string& id);

// Prefix of the id of a LoRA in ModelInfo.digests.
inline constexpr char kLoraDigest[] = "lora/";
// Returns "sha256:HEX" of a LoRA's file, or "" if it is not known.
std::string LoraDigest(const v1::ModelInfo& info, const std::string& id);

// Returns the strength of the model's distilled LoRA in the first stage of the recipe (distilled_share.h).
double DistilledShareOf(v1::Generation::Recipe recipe);

// FailedPrecondition names a missing field, for example in the description of an older build: no request can be checked
// without it.
absl::StatusOr<ModelDescription> ToModelDescription(const v1::ModelInfo& info);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_MODEL_CONVERSION_H_

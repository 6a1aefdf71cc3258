// Between the public API's `Generation` and the engine's GenerationRequest. Shared by the worker and kinora-render, so
// a request means the same in both; the frontend uses CheckGeneration before it stores a job.
//
// Errors begin with the proto's field ("sigmas[3]: …"): InvalidArgument for a value no model could accept,
// Unimplemented
// ("conditions: not available yet") for what is valid and not built yet. What depends on the model (multiples, limits,
// known LoRAs) is checked by whoever knows the model.
#ifndef KINORA_SERVER_COMMON_REQUEST_CONVERSION_H_
#define KINORA_SERVER_COMMON_REQUEST_CONVERSION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/request.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

inline constexpr size_t kMaxPromptBytes = 16 << 10;
inline constexpr int kMaxConditions = 64;
inline constexpr int kMaxSigmas = 1000;
inline constexpr double kMaxGuidanceScale = 1000;  // of either sign; float32 latents overflow far beyond it

// Unknown enum numbers, numbers that are not finite, values outside the field's stated range, lists over the limits.
absl::Status CheckGeneration(const v1::Generation& generation);

// CheckGeneration, then the conversion. `seed` must be present (the caller draws one and reports it).
absl::StatusOr<GenerationRequest> ToGenerationRequest(const v1::Generation& generation);

// The way back, for what the engine filled in. Media inputs have no way back: conditions, retake and audio are taken
// from `asked`.
v1::Generation ToGeneration(const GenerationRequest& request, const v1::Generation& asked);

// `Output` without its model-independent mistakes: unknown container, crf outside 0..51.
absl::Status CheckOutput(const v1::Output& output);

// proto3 JSON -> message; unknown fields and enum names are refused. InvalidArgument begins with `what`.
absl::Status ParseJson(const std::string& what, const std::string& json, google::protobuf::Message& message);

// What `embed_parameters` writes: the effective generation as JSON, without prompts; equal requests give equal text.
std::string ParametersJson(const v1::Generation& effective);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_REQUEST_CONVERSION_H_

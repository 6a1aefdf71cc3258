// Between the public API's messages and the plain requests that engine/request decides on. Shared by frontend, worker
// and tools, so that a request means the same in all of them.
#ifndef KINORA_SERVER_COMMON_REQUEST_CONVERSION_H_
#define KINORA_SERVER_COMMON_REQUEST_CONVERSION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/request.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Values as they are; what they may be is for engine/request/request_rules.h. InvalidArgument naming the field for a
// number without a name and for an absent seed: the caller draws one and reports it.
absl::StatusOr<GenerationRequest> ToGenerationRequest(const v1::Generation& generation);

// The way back: equal requests but for pixels, sound and noise, which have none.
v1::Generation ToGeneration(const GenerationRequest& request);

// InvalidArgument "FIELD: …" for all that no model could accept.
absl::Status CheckGeneration(const v1::Generation& generation);

OutputRequest ToOutputRequest(const v1::Output& output);

// `Output` without its mistakes: InvalidArgument "FIELD: …" for an unknown container or a value out of range,
// Unimplemented "FIELD: not available yet".
absl::Status CheckOutput(const v1::Output& output);

// proto3 JSON -> message; unknown fields and enum names are refused. InvalidArgument begins with `what`.
absl::Status ParseJson(const std::string& what, const std::string& json, google::protobuf::Message& message);

// The effective generation as JSON with its prompts, and with the fields that are 0 or empty.
std::string EveryFieldJson(const v1::Generation& effective);

// What `embed_parameters` writes: the effective generation as JSON, without prompts; equal requests give equal text.
std::string ParametersJson(const v1::Generation& effective);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_REQUEST_CONVERSION_H_

// Converts between the public API's messages and the engine's request structs. Shared by frontend, worker and tools, so
// that a request means the same in all of them.
#ifndef KINORA_SERVER_REQUEST_REQUEST_CONVERSION_H_
#define KINORA_SERVER_REQUEST_REQUEST_CONVERSION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/model_description.h"
#include "engine/request/request.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Fills in the absent terms of each guidance with keep_defaults, from the recipe that `generation` selects, and clears
// keep_defaults. Errors: those of ToGenerationRequest.
absl::Status KeepGuidanceDefaults(const ModelDescription& model, v1::Generation& generation);

// Copies the values without applying the rules of engine/request/request_rules.h. InvalidArgument names the field if
// its number is not a value of the enum, if the seed is absent (the caller must draw and report one), or if
// keep_defaults is set (call KeepGuidanceDefaults first).
absl::StatusOr<GenerationRequest> ToGenerationRequest(const v1::Generation& generation);

// The reverse of ToGenerationRequest, without pixels, sound and noise, which the message cannot hold.
v1::Generation ToGeneration(const GenerationRequest& request);

// InvalidArgument "FIELD: …" if no model could accept the request.
absl::Status CheckGeneration(const v1::Generation& generation);

OutputRequest ToOutputRequest(const v1::Output& output);

// Checks `output`: InvalidArgument "FIELD: …" for an unknown container or a value out of range, Unimplemented "FIELD:
// not available yet".
absl::Status CheckOutput(const v1::Output& output);

// Parses proto3 JSON; rejects unknown fields and enum names. InvalidArgument begins with `what`.
absl::Status ParseJson(const std::string& what, const std::string& json, google::protobuf::Message& message);

// Returns the effective generation as JSON, with its prompts and with fields that are 0 or empty.
std::string EveryFieldJson(const v1::Generation& effective);

// Returns the JSON that `embed_parameters` writes: the effective generation without its prompts. Equal requests give
// equal text.
std::string ParametersJson(const v1::Generation& effective);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_REQUEST_CONVERSION_H_

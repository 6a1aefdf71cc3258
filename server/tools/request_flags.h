// The flags of `kinora generate`, `create` and `estimate`, and the request they spell.
// They are sent as given: what is valid for a model only the server knows, and its errors name the field.
#ifndef KINORA_SERVER_TOOLS_REQUEST_FLAGS_H_
#define KINORA_SERVER_TOOLS_REQUEST_FLAGS_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

absl::Span<const FlagSpec> RequestFlags();

// The prompt may be the line's one operand. --request FILE is read first, the other flags override its fields.
// InvalidArgument names the flag, NotFound the file. request_id is --request-id, or drawn: with a key of its own a
// request can be sent again after a broken connection.
// base: what neither says.
absl::StatusOr<v1::CreateVideoRequest> RequestFromFlags(const CommandLine& line, v1::CreateVideoRequest base = {});

// InvalidArgument: the request has no prompt, and --prompt "" has not said that none is meant. `prompt`: what the error
// calls the missing one, "PROMPT" where it is an operand.
absl::Status CheckPrompt(const CommandLine& line, const v1::Generation& generation, absl::string_view prompt);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_REQUEST_FLAGS_H_

// The flags of `kinora generate`, `create` and `estimate`, and the request that they describe. Values are sent as
// given: only the server knows what a model accepts, and its errors name the field.
#ifndef KINORA_SERVER_REQUEST_REQUEST_FLAGS_H_
#define KINORA_SERVER_REQUEST_REQUEST_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

absl::Span<const FlagSpec> RequestFlags();

// The prompt may be the only operand. --request FILE is read first; the other flags override its fields. request_id is
// --request-id or random, so that any request can be sent again after a broken connection. base: values that neither
// the file nor the flags set. InvalidArgument names the flag, NotFound the file.
absl::StatusOr<v1::CreateVideoRequest> RequestFromFlags(const CommandLine& line, v1::CreateVideoRequest base = {});

// InvalidArgument if the request has no prompt and --prompt "" was not given. `prompt`: the error's name for a missing
// prompt, "PROMPT" where it is an operand.
absl::Status CheckPrompt(const CommandLine& line, const v1::Generation& generation, absl::string_view prompt);

// Returns a warning if the container keeps only the sound of a clip whose picture is also generated, otherwise "".
std::string SoundAloneWarning(const v1::Generation& generation, v1::Output::Container container);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_REQUEST_FLAGS_H_

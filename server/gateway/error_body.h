// Errors as HTTP answers: {"error": {"message", "type", "param", "code", "fields": [{"field", "message"}]}, "detail":
// message}. `error` is OpenAI's and vLLM's form, `detail` SGLang's. docs/http.md has the table of statuses.
#ifndef KINORA_SERVER_GATEWAY_ERROR_BODY_H_
#define KINORA_SERVER_GATEWAY_ERROR_BODY_H_

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// `code` and `message` of an error, or of a failed job. code: the reason of its ErrorInfo or else the name of its code,
// in lower case: "queue_full", "invalid_argument". message: with the names of create_fields.h for fields.
std::string ErrorCode(const absl::Status& status);
std::string ErrorMessage(const absl::Status& status);

struct HttpError {
  int status = 500;
  std::string body;                                          // JSON
  std::vector<std::pair<std::string, std::string>> headers;  // such as Retry-After, in whole seconds, and
                                                             // WWW-Authenticate
};

// status: not OK; of a call to the frontend, or of this folder. `param` is the first wrong field. Paths of files lose
// their directories.
HttpError ToHttpError(const absl::Status& status);

// An error of HTTP itself, such as {405, "method_not_allowed", "…"}. param: the wrong field or header; "": none.
HttpError MakeHttpError(int status, std::string_view code, std::string_view message, std::string_view param = "");

// The reasons (ErrorInfo) with which parts of the gateway mark their own errors.
inline constexpr char kMalformedBody[] = "MALFORMED_BODY";  // 400
inline constexpr char kBodyTooLarge[] = "BODY_TOO_LARGE";   // 413

// What GET /v1/videos/{id}/content sends: the index in video.artifacts, or an error: 404 with Retry-After until the job
// has COMPLETED, 422 if it failed or was cancelled, 410 if the clip has expired, 422 for an unknown variant, 404 for
// one that this video does not have. variant: "video" (also ""), "thumbnail", "spritesheet", "trace".
std::variant<int, HttpError> ChooseContent(const v1::Video& video, std::string_view variant);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_ERROR_BODY_H_

// The fields of a request to /v1/videos, /v1/estimates or /v1/audio/generate, whether they come as a JSON object or as
// the text parts of a multipart body. Names that a client writes with brackets ("lora[name]", "sigmas[]", as the OpenAI
// Python client does for nested values) become objects and lists. The objects `extra_body` and `extra_params` are
// merged into the top level; a name that is there already must have the same value.
#ifndef KINORA_SERVER_GATEWAY_REQUEST_FIELDS_H_
#define KINORA_SERVER_GATEWAY_REQUEST_FIELDS_H_

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

inline constexpr size_t kMaxFieldsBytes = 16 << 20;  // with data: URLs; larger files are file parts
inline constexpr int kMaxFieldsDepth = 8;
inline constexpr size_t kMaxFieldValues = 2048;  // with lists and objects; more than any request needs

class RequestFields {
 public:
  RequestFields();  // of a multipart body: call Add for each part, then Merge
  ~RequestFields();
  RequestFields(RequestFields&& other) noexcept;
  RequestFields& operator=(RequestFields&& other) noexcept;

  // Parses and merges a JSON body. InvalidArgument with ErrorInfo MALFORMED_BODY (HTTP 400): not JSON, not an object,
  // nested too deep, a name that occurs twice, or not UTF-8; BODY_TOO_LARGE (413): beyond a limit above.
  static absl::StatusOr<RequestFields> FromJson(std::string_view body);

  // Adds a text part. Its value stays text until a field of another type reads it. InvalidArgument names the part:
  // given twice, malformed brackets, not UTF-8; or BODY_TOO_LARGE.
  absl::Status AddText(std::string_view name, std::string_view value);
  // Adds the name of a file part, whose bytes the caller keeps. InvalidArgument: a file or text of that name exists.
  absl::Status AddFile(std::string_view name);
  // Merges extra_body and extra_params, after the last part. InvalidArgument names the field.
  absl::Status Merge();

  // The value of `model`; "" if it is absent, null or not a string (then ToCreateRequest reports it).
  std::string model() const;

  const nlohmann::ordered_json& values() const { return *values_; }  // an object
  const std::set<std::string>& files() const { return files_; }

 private:
  std::unique_ptr<nlohmann::ordered_json> values_;
  size_t bytes_ = 0;  // of the text parts, with their names
  size_t count_ = 0;  // of the text parts
  std::set<std::string> files_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_REQUEST_FIELDS_H_

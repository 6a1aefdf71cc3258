// Headers of multipart/form-data bodies (RFC 7578): the boundary in Content-Type, and the headers of a part.
#ifndef KINORA_SERVER_GATEWAY_MULTIPART_HEADER_H_
#define KINORA_SERVER_GATEWAY_MULTIPART_HEADER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

struct PartHeader {
  std::string name;                     // never empty
  std::optional<std::string> filename;  // present: a file part, even if it is ""
  std::string content_type;             // "" if absent
};

// InvalidArgument with ErrorInfo MALFORMED_BODY (error_body.h).
absl::Status MalformedBody(std::string_view message);

// Returns the boundary in the value of Content-Type. Fails with MalformedBody: not multipart/form-data, no boundary, or
// one that RFC 2046 forbids (1 to 70 characters).
absl::StatusOr<std::string> MultipartBoundary(std::string_view content_type);

// block: the lines of a part's headers, separated by CRLF. Fails with MalformedBody: no "Content-Disposition:
// form-data" with a name; a header or parameter twice; a name or file name longer than name_bytes, with a control
// character, or not UTF-8; a Content-Transfer-Encoding that changes bytes.
absl::StatusOr<PartHeader> ParsePartHeader(std::string_view block, size_t name_bytes);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_MULTIPART_HEADER_H_

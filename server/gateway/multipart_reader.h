// Parses a multipart/form-data body (RFC 7578, with the syntax of RFC 2046) as it arrives, in pieces of any size. The
// data of a part is passed on at once; only the headers of one part, and as many bytes as a delimiter has, are kept.
#ifndef KINORA_SERVER_GATEWAY_MULTIPART_READER_H_
#define KINORA_SERVER_GATEWAY_MULTIPART_READER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/gateway/multipart_header.h"

namespace kinora {

// Called in the order of the body: for each part on_part, on_data any number of times with at least one byte, on_end.
// The view of on_data is valid during the call. An error that one returns ends the parse, and Feed returns it.
struct PartHandlers {
  std::function<absl::Status(const PartHeader&)> on_part;
  std::function<absl::Status(std::string_view)> on_data;
  std::function<absl::Status()> on_end;
};

struct MultipartLimits {
  size_t parts = 256;
  size_t header_bytes = 8 << 10;  // of all headers of one part
  size_t name_bytes = 128;        // of a part's name, and of a file's name
  size_t preamble_bytes = 1024;   // before the first delimiter, and after the last
};

class MultipartReader {
 public:
  // boundary: as MultipartBoundary returns it.
  MultipartReader(std::string_view boundary, PartHandlers handlers, MultipartLimits limits = {});

  // Takes the next bytes of the body. InvalidArgument with ErrorInfo MALFORMED_BODY, or BODY_TOO_LARGE for a limit; or
  // the error of a handler. After an error every call returns it.
  absl::Status Feed(std::string_view bytes);
  // At the end of the body. InvalidArgument unless the closing delimiter has come.
  absl::Status Finish();

 private:
  enum class State { kPreamble, kAfterDelimiter, kHeaders, kData, kEpilogue };

  // Each takes what it can from `kept_` and returns whether it took anything.
  absl::StatusOr<bool> TakePreamble();
  absl::StatusOr<bool> TakeAfterDelimiter();
  absl::StatusOr<bool> TakeHeaders();
  absl::StatusOr<bool> TakeData();
  absl::StatusOr<bool> TakeEpilogue();
  absl::StatusOr<bool> Take();
  std::string_view Kept() const { return std::string_view(kept_).substr(taken_); }

  const std::string delimiter_;  // "\r\n--BOUNDARY"
  const PartHandlers handlers_;
  const MultipartLimits limits_;
  State state_ = State::kPreamble;
  std::string kept_;  // bytes that have come; those before taken_ are done with
  size_t taken_ = 0;
  size_t outside_ = 0;  // bytes of the preamble and the epilogue so far
  size_t parts_ = 0;
  absl::Status failed_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_MULTIPART_READER_H_

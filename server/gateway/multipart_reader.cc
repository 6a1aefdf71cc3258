#include "server/gateway/multipart_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/gateway/error_body.h"

namespace kinora {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadersEnd = "\r\n\r\n";
constexpr size_t kMaxPadding = 128;  // spaces after a delimiter

absl::Status TooLarge(std::string_view message) {
  return WithErrorInfo(absl::InvalidArgumentError(std::string(message)), kBodyTooLarge);
}

}  // namespace

// The first delimiter may be the first bytes of the body; the line end before it is then absent.
MultipartReader::MultipartReader(std::string_view boundary, PartHandlers handlers, MultipartLimits limits)
    : delimiter_(absl::StrCat("\r\n--", std::string(boundary))),
      handlers_(std::move(handlers)),
      limits_(limits),
      kept_(kLineEnd) {}

absl::Status MultipartReader::Feed(std::string_view bytes) {
  KINORA_RETURN_IF_ERROR(failed_);
  kept_.append(bytes);
  absl::StatusOr<bool> took = true;
  while (took.ok() && *took) took = Take();
  failed_ = took.status();
  kept_.erase(0, taken_);
  taken_ = 0;
  return failed_;
}

absl::Status MultipartReader::Finish() {
  if (failed_.ok() && state_ != State::kEpilogue) failed_ = MalformedBody("the body ends before its last delimiter");
  return failed_;
}

absl::StatusOr<bool> MultipartReader::Take() {
  switch (state_) {
    case State::kPreamble:
      return TakePreamble();
    case State::kAfterDelimiter:
      return TakeAfterDelimiter();
    case State::kHeaders:
      return TakeHeaders();
    case State::kData:
      return TakeData();
    case State::kEpilogue:
      return TakeEpilogue();
  }
  return false;
}

absl::StatusOr<bool> MultipartReader::TakePreamble() {
  const size_t found = Kept().find(delimiter_);
  const size_t end =
      found != std::string_view::npos ? found : Kept().size() - std::min(Kept().size(), delimiter_.size());
  outside_ += end;
  if (outside_ > limits_.preamble_bytes) return TooLarge("the body has too many bytes before its first part");
  taken_ += end;
  if (found == std::string_view::npos) return false;
  taken_ += delimiter_.size();
  state_ = State::kAfterDelimiter;
  return true;
}

absl::StatusOr<bool> MultipartReader::TakeAfterDelimiter() {
  if (Kept().size() < 2) return false;
  if (Kept().substr(0, 2) == "--") {
    taken_ += 2;
    outside_ = 0;
    state_ = State::kEpilogue;
    return true;
  }
  const size_t end = Kept().find(kLineEnd);
  const std::string_view padding = Kept().substr(0, std::min(end, Kept().size() - 1));  // a last CR may begin the end
  if (padding.size() > kMaxPadding || padding.find_first_not_of(" \t") != std::string_view::npos) {
    return MalformedBody("a delimiter is followed by other bytes");
  }
  if (end == std::string_view::npos) return false;
  if (++parts_ > limits_.parts) return TooLarge(absl::StrCat("the body has more than ", limits_.parts, " parts"));
  taken_ += end + kLineEnd.size();
  state_ = State::kHeaders;
  return true;
}

absl::StatusOr<bool> MultipartReader::TakeHeaders() {
  const size_t end = Kept().find(kHeadersEnd);
  // Without the end, its first three bytes may be the last that have come.
  const size_t bytes = end != std::string_view::npos ? end : Kept().size() - std::min<size_t>(Kept().size(), 3);
  if (bytes > limits_.header_bytes) {
    return TooLarge(absl::StrCat("the headers of a part have more than ", limits_.header_bytes, " bytes"));
  }
  if (end == std::string_view::npos) return false;
  KINORA_ASSIGN_OR_RETURN(const PartHeader header, ParsePartHeader(Kept().substr(0, end), limits_.name_bytes));
  KINORA_RETURN_IF_ERROR(handlers_.on_part(header));
  taken_ += end + kHeadersEnd.size();
  state_ = State::kData;
  return true;
}

absl::StatusOr<bool> MultipartReader::TakeData() {
  const std::string_view kept = Kept();
  const size_t found = kept.find(delimiter_);
  // Without a delimiter, all bytes but those that may begin one.
  size_t end = found;
  if (found == std::string_view::npos) {
    end = kept.size() - std::min(kept.size(), delimiter_.size() - 1);
    while (kept.substr(end) != std::string_view(delimiter_).substr(0, kept.size() - end)) ++end;
  }
  if (end > 0) KINORA_RETURN_IF_ERROR(handlers_.on_data(kept.substr(0, end)));
  taken_ += end;
  if (found == std::string_view::npos) return false;
  KINORA_RETURN_IF_ERROR(handlers_.on_end());
  taken_ += delimiter_.size();
  state_ = State::kAfterDelimiter;
  return true;
}

absl::StatusOr<bool> MultipartReader::TakeEpilogue() {
  outside_ += Kept().size();
  if (outside_ > limits_.preamble_bytes) return TooLarge("the body has too many bytes after its last part");
  taken_ += Kept().size();
  return false;
}

}  // namespace kinora

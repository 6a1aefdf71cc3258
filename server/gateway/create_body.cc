#include "server/gateway/create_body.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/gateway/error_body.h"

namespace kinora {
namespace {

constexpr int64_t kParsed = 4, kHeld = 2;  // create_body.h: copies of a text while it is parsed, and afterwards

absl::Status TooLarge(std::string_view what, int64_t bytes) {
  return WithErrorInfo(absl::InvalidArgumentError(absl::StrCat(std::string(what), " has more than ", bytes, " bytes")),
                       kBodyTooLarge);
}

bool IsJson(const std::string& content_type) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(content_type, absl::MaxSplits(';', 1));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(parts.first), "application/json");
}

}  // namespace

absl::Status OthersUseAll(std::string_view what) {
  return WithRetryInfo(
      absl::ResourceExhaustedError(absl::StrCat("other requests use all of this server's ", std::string(what))),
      absl::Seconds(2));
}

CreateBody::CreateBody(HandlerContext& context, std::shared_ptr<HttpExchange> exchange)
    : context_(context),
      exchange_(std::move(exchange)),
      memory_(context.body_memory),
      scratch_(context.scratch_space),
      text_(context.body_memory) {}

void CreateBody::Read(OnEnd on_end) {
  const absl::Status status = Begin();
  status.ok() ? ReadNext(std::move(on_end)) : on_end(status);
}

absl::Status CreateBody::Begin() {
  const std::string* type = exchange_->head().Find("content-type");
  if (type == nullptr) return InvalidField("Content-Type", "must be application/json or multipart/form-data");
  if (IsJson(*type)) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(const std::string boundary, MultipartBoundary(*type));
  fields_.emplace();
  multipart_.emplace(boundary, PartHandlers{.on_part = [this](const PartHeader& header) { return OnPart(header); },
                                            .on_data = [this](std::string_view data) { return OnData(data); },
                                            .on_end = [this] { return OnPartEnd(); }});
  return absl::OkStatus();
}

void CreateBody::ReadNext(OnEnd on_end) {
  exchange_->ReadBody([self = shared_from_this(), on_end = std::move(on_end)](const std::string& piece) {
    const absl::Status status = piece.empty() ? self->Finish() : self->Take(piece);
    status.ok() && !piece.empty() ? self->ReadNext(on_end) : on_end(status);
  });
}

absl::Status CreateBody::Take(std::string_view piece) { return multipart_ ? multipart_->Feed(piece) : OnText(piece); }

absl::Status CreateBody::OnText(std::string_view data) {
  // A body that could never be parsed must not be told to come again.
  const int64_t most = std::min<int64_t>(kMaxFieldsBytes, context_.body_memory.bytes() / kParsed);
  text_bytes_ += std::ssize(data);
  if (text_bytes_ > most) return TooLarge(multipart_ ? "the text of the body" : "the body", most);
  return text_.Append(data) ? absl::OkStatus() : OthersUseAll("memory for requests");
}

absl::Status CreateBody::TakeScratch(ByteBudget::Share& memory) const {
  return memory.Grow((kParsed - kHeld) * text_bytes_) ? absl::OkStatus() : OthersUseAll("memory for requests");
}

absl::Status CreateBody::Finish() {
  ByteBudget::Share parser(context_.body_memory);
  if (multipart_) {
    KINORA_RETURN_IF_ERROR(multipart_->Finish());
    KINORA_RETURN_IF_ERROR(TakeScratch(parser));
    return fields_->Merge();
  }
  // The buffer of the text is there already.
  const int64_t scratch = (kParsed - kHeld) * text_bytes_ - text_.capacity();
  if (!memory_.Grow(kHeld * text_bytes_) || !parser.Grow(std::max<int64_t>(0, scratch))) {
    return OthersUseAll("memory for requests");
  }
  KINORA_ASSIGN_OR_RETURN(fields_, RequestFields::FromJson(text_.text()));
  text_.Clear();
  return absl::OkStatus();
}

absl::Status CreateBody::OnPart(const PartHeader& header) {
  part_ = header.name;
  file_ = nullptr;
  if (!header.filename) return absl::OkStatus();
  KINORA_RETURN_IF_ERROR(fields_->AddFile(part_));
  KINORA_ASSIGN_OR_RETURN(file_, SpoolFile::Create(context_.scratch_folder));
  return absl::OkStatus();
}

absl::Status CreateBody::OnData(std::string_view data) {
  const auto bytes = static_cast<int64_t>(data.size());
  if (file_ != nullptr) {
    if (file_->size() + bytes > context_.max_upload_bytes) return TooLarge(part_, context_.max_upload_bytes);
    if (!scratch_.Grow(bytes)) return OthersUseAll("space for uploads");
    return file_->Append(data);
  }
  return OnText(data);
}

absl::Status CreateBody::OnPartEnd() {
  if (file_ == nullptr) {
    if (!memory_.Grow(kHeld * std::ssize(text_.text()))) return OthersUseAll("memory for requests");
    KINORA_RETURN_IF_ERROR(fields_->AddText(part_, text_.text()));
    text_.Clear();
    return absl::OkStatus();
  }
  if (file_->size() == 0) return InvalidField(part_, "the file is empty");
  file_->Finish();
  files_[part_] = std::move(file_);
  return absl::OkStatus();
}

}  // namespace kinora

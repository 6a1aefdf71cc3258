#include "server/frontend/api/upload_reactor.h"

#include <utility>

#include "server/common/status_details.h"

namespace kinora {

std::shared_ptr<UploadReactor> UploadReactor::Make(ServiceContext& context, std::string client) {
  std::shared_ptr<UploadReactor> reactor(new UploadReactor(context, std::move(client)));
  reactor->self_ = reactor;
  return reactor;
}

void UploadReactor::OnRequest(v1::UploadInputRequest request) {
  const auto self = shared_from_this();  // an answer may be the end of it
  const bool has_data = request.part_case() == v1::UploadInputRequest::kData;
  if (upload_ == nullptr) {
    return has_data ? Finish(InvalidField("header", "is needed first, before data")) : Begin(request.header());
  }
  if (!has_data) return Finish(InvalidField("data", "is needed after the header: one call uploads one input"));
  upload_->Append(std::move(*request.mutable_data()), [this, self = shared_from_this()](const absl::Status& status) {
    if (status.ok()) return ReadNext(context_.upload_reads);
    upload_.reset();  // before the client knows, who may begin another
    Finish(status);
  });
}

void UploadReactor::Begin(const v1::UploadInputRequest::Header& header) {
  auto slot = context_.uploads.Take(client_);
  if (!slot.ok()) return Finish(slot.status());
  slot_ = *std::move(slot);
  context_.inputs.Begin(header, [this, self = shared_from_this()](absl::StatusOr<InputStore::Begun> begun) {
    if (!begun.ok()) return Finish(begun.status());
    if (begun->upload == nullptr) return StartWriteAndFinish(&begun->input);
    upload_ = std::move(begun->upload);
    ReadNext(context_.upload_reads);
  });
}

void UploadReactor::OnRequestsEnd() {
  upload_->Complete([this, self = shared_from_this()](const absl::StatusOr<v1::Input>& input) {
    upload_.reset();
    input.ok() ? StartWriteAndFinish(&*input) : Finish(input.status());
  });
}

}  // namespace kinora

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
  const auto self = shared_from_this();  // Finish may release the last other reference
  const bool has_data = request.part_case() == v1::UploadInputRequest::kData;
  if (upload_ == nullptr) {
    return has_data ? Finish(InvalidField("header", "must be sent first, before data")) : Begin(request.header());
  }
  if (!has_data) return Reject(InvalidField("data", "must follow the header; each call uploads one input"));
  // With empty pieces a client could keep an upload open indefinitely.
  if (request.data().empty()) return Reject(InvalidField("data", "must be 1 byte or more"));
  upload_->Append(std::move(*request.mutable_data()), [this, self = shared_from_this()](const absl::Status& status) {
    status.ok() ? ReadNext(context_.upload_reads) : Reject(status);
  });
}

// Before the client gets the answer and may begin another upload.
void UploadReactor::Release() {
  upload_.reset();
  slot_.reset();
}

void UploadReactor::Reject(const absl::Status& status) {
  Release();
  Finish(status);
}

void UploadReactor::Begin(const v1::UploadInputRequest::Header& header) {
  auto slot = context_.uploads.Take(client_);
  if (!slot.ok()) return Finish(slot.status());
  slot_ = *std::move(slot);
  context_.inputs.Begin(header, [this, self = shared_from_this()](absl::StatusOr<InputStore::Begun> begun) {
    if (!begun.ok()) return Reject(begun.status());
    if (begun->upload == nullptr) {
      Release();
      return StartWriteAndFinish(&begun->input);
    }
    upload_ = std::move(begun->upload);
    ReadNext(context_.upload_reads);
  });
}

void UploadReactor::OnRequestsEnd() {
  upload_->Complete([this, self = shared_from_this()](const absl::StatusOr<v1::Input>& input) {
    Release();
    input.ok() ? StartWriteAndFinish(&*input) : Finish(input.status());
  });
}

}  // namespace kinora

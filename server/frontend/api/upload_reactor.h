// Receives one input in messages: a header, then its data. Each message is requested once the previous one is written,
// so a call holds one in memory. If the header's content is already stored, the call is answered at once; otherwise
// after the client has sent all data and ended its side.
#ifndef KINORA_SERVER_FRONTEND_API_UPLOAD_REACTOR_H_
#define KINORA_SERVER_FRONTEND_API_UPLOAD_REACTOR_H_

#include <memory>
#include <string>
#include <utility>

#include "server/frontend/api/call_slots.h"
#include "server/frontend/api/request_stream.h"
#include "server/frontend/api/service_context.h"

namespace kinora {

class UploadReactor : public RequestStream<v1::UploadInputRequest, v1::Input>,
                      public std::enable_shared_from_this<UploadReactor> {
 public:
  // The upload counts against the limit of `client`.
  static std::shared_ptr<UploadReactor> Make(ServiceContext& context, std::string client);

  void OnRequest(v1::UploadInputRequest request) override;
  void OnRequestsEnd() override;
  void OnWriteDone(bool) override {}
  void OnCancel() override {}  // the pending or next read ends the call
  void OnDone() override { self_.reset(); }

 private:
  UploadReactor(ServiceContext& context, std::string client) : context_(context), client_(std::move(client)) {}
  void Begin(const v1::UploadInputRequest::Header& header);
  void Release();  // the input and the slot
  void Reject(const absl::Status& status);

  ServiceContext& context_;
  const std::string client_;
  std::shared_ptr<UploadReactor> self_;  // until OnDone
  // Used only between a message and the next read, hence by one thread at a time.
  std::unique_ptr<CallSlots::Slot> slot_;
  std::unique_ptr<InputStore::Upload> upload_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_UPLOAD_REACTOR_H_

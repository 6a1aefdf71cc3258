// Takes one input in messages: a header, then its data. Each message is asked for once the one before is written, so a
// call holds one in memory. A header whose content is stored is answered at once; other inputs when the client has sent
// all of them and ended its side.
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
  // `client` is whose limit on uploads counts.
  static std::shared_ptr<UploadReactor> Make(ServiceContext& context, std::string client);

  void OnRequest(v1::UploadInputRequest request) override;
  void OnRequestsEnd() override;
  void OnWriteDone(bool) override {}
  void OnCancel() override {}  // the read that is or comes next ends the call
  void OnDone() override { self_.reset(); }

 private:
  UploadReactor(ServiceContext& context, std::string client) : context_(context), client_(std::move(client)) {}
  void Begin(const v1::UploadInputRequest::Header& header);

  ServiceContext& context_;
  const std::string client_;
  std::shared_ptr<UploadReactor> self_;  // until OnDone
  // Of whoever has the turn: this class between a message and the next read, else nobody.
  std::unique_ptr<CallSlots::Slot> slot_;
  std::unique_ptr<InputStore::Upload> upload_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_UPLOAD_REACTOR_H_

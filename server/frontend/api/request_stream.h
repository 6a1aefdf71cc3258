// The requests of a client-streaming method, as gRPC's ServerReadReactor, but on a ServerCall. A reactor derives from
// it and lives until OnDone. It receives one message at a time; until it calls ReadNext or ends the call, nothing else
// ends the call.
#ifndef KINORA_SERVER_FRONTEND_API_REQUEST_STREAM_H_
#define KINORA_SERVER_FRONTEND_API_REQUEST_STREAM_H_

#include "server/frontend/api/reply_stream.h"

namespace kinora {

template <typename Request, typename Reply>
class RequestStream : public ReplyStream<Reply> {
 public:
  virtual void OnRequest(Request request) = 0;
  virtual void OnRequestsEnd() = 0;  // only after a first message; the client sends no more

 protected:
  void ReadNext(MessageReads& reads) { this->ReadNextMessage(reads); }  // after OnRequest; `reads` bounds the wait
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_REQUEST_STREAM_H_

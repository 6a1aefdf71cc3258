// The requests of a client-streaming method, on a ServerCall: what gRPC's ServerReadReactor is. A reactor derives from
// it and lives until OnDone. It is given one message at a time and has the turn until it asks for the next one, or ends
// the call; nobody else ends it meanwhile.
#ifndef KINORA_SERVER_FRONTEND_API_REQUEST_STREAM_H_
#define KINORA_SERVER_FRONTEND_API_REQUEST_STREAM_H_

#include "server/frontend/api/reply_stream.h"

namespace kinora {

template <typename Request, typename Reply>
class RequestStream : public ReplyStream<Reply> {
 public:
  virtual void OnRequest(Request request) = 0;
  virtual void OnRequestsEnd() = 0;  // after the first; the client sends no more

 protected:
  void ReadNext(MessageReads& reads) { this->ReadNextMessage(reads); }  // after OnRequest; `reads` bounds it
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_REQUEST_STREAM_H_

// One gRPC call from its headers on. gRPC's own handlers of unary and server-streaming methods run once the message is
// there; a ServerCall runs with the headers, so that no byte of a message is asked for before its sender is known.
#ifndef KINORA_SERVER_FRONTEND_API_SERVER_CALL_H_
#define KINORA_SERVER_FRONTEND_API_SERVER_CALL_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/frontend/api/call_log.h"
#include "server/frontend/api/message_reads.h"
#include "server/frontend/api/token_file.h"

namespace kinora {

class ByteStream;

// Who may call a method, and how its messages are read. What it points to outlives the server.
struct CallAccess {
  const TokenSet* tokens;
  CallLog* log;
  MessageReads* reads;                // of calls with a valid token
  MessageReads* strangers = nullptr;  // of the others; null: they are refused
};

// Who makes a call whose token is valid, for limits per client: the token's holder; without tokens the peer's address,
// which for all who come over a Unix socket is one.
std::string ClientOf(const grpc::CallbackServerContext& call, const TokenSet& tokens);

class ServerCall : public grpc::ServerGenericBidiReactor, public std::enable_shared_from_this<ServerCall> {
 public:
  // Runs with each message that was asked for; nullopt: the client sends no more. It must see to it that Finish is
  // called, at once or later, or that the next message is read.
  using OnMessage = std::function<void(ServerCall& call, std::optional<std::string_view> bytes)>;

  // Refuses the call or asks for its first message. The call lives until it is done, and what it is given longer.
  static ServerCall* Start(grpc::CallbackServerContext* context, std::string_view method, const CallAccess& access,
                           const OnMessage& on_message);

  grpc::CallbackServerContext& context() { return *context_; }  // until Finish
  // After OnMessage. The read counts among those that count already, or among `reads` from now on.
  void ReadNext();
  void ReadNext(MessageReads& reads);
  void Write(const grpc::ByteBuffer& bytes);  // one at a time
  // One of the two, once, from any thread.
  void Finish(const absl::Status& status);
  void WriteAndFinish(const grpc::ByteBuffer& bytes);  // OK
  // `stream` is told what becomes of its writes and of the call, and may write from now on.
  void Attach(ByteStream* stream) ABSL_LOCKS_EXCLUDED(mu_);
  ByteStream* stream() ABSL_LOCKS_EXCLUDED(mu_);  // null: none is attached

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  ServerCall(grpc::CallbackServerContext* context, std::string_view method, const CallAccess& access,
             const OnMessage& on_message)
      : context_(context), method_(method), access_(access), on_message_(on_message) {}

  grpc::CallbackServerContext* const context_;
  const std::string_view method_;
  const CallAccess& access_;
  const OnMessage& on_message_;
  std::shared_ptr<ServerCall> self_;  // until OnDone
  MessageReads* reads_ = nullptr;
  int64_t read_ = 0;
  grpc::ByteBuffer message_, reply_;  // of the read and of the write in progress

  absl::Mutex mu_;
  ByteStream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_SERVER_CALL_H_

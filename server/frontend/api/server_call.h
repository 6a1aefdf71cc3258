// One gRPC call from its headers on. gRPC's own handlers of unary and server-streaming methods run once the message has
// arrived; a ServerCall runs with the headers, so that no byte of a message is requested before its sender is
// authenticated.
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

// The tokens that permit a call, and the queues that read its messages. The pointers must outlive the server.
struct CallAccess {
  const TokenSet* tokens;
  CallLog* log;
  MessageReads* reads;                // for calls with a valid token
  MessageReads* strangers = nullptr;  // for other calls; null: they are rejected
  bool from_gateway = false;          // every call comes from the frontend's own gateway
};

// Identifies the client of a call with a valid token, for limits per client: the token's holder; without tokens, the
// peer's address, which is the same for all clients of a Unix socket. On the gateway's socket, the address in the
// call's metadata (client_metadata.h) replaces the peer's; anywhere else that metadata has no effect.
std::string ClientOf(const grpc::CallbackServerContext& call, const CallAccess& access);
// Returns the address of the call's client for the log, by the same rule: "ipv4:127.0.0.1:4711", "ipv4:127.0.0.1".
std::string PeerOf(const grpc::CallbackServerContext& call, const CallAccess& access);

class ServerCall : public grpc::ServerGenericBidiReactor, public std::enable_shared_from_this<ServerCall> {
 public:
  // Runs with each requested message; nullopt: the client sends no more. It must either read the next message or ensure
  // that Finish is called, at once or later.
  using OnMessage = std::function<void(ServerCall& call, std::optional<std::string_view> bytes)>;

  // Rejects the call or requests its first message. The call lives until OnDone; the arguments must outlive it.
  static ServerCall* Start(grpc::CallbackServerContext* context, std::string_view method, const CallAccess& access,
                           const OnMessage& on_message);

  grpc::CallbackServerContext& context() { return *context_; }  // until Finish
  // Call after OnMessage. The first keeps counting reads in the present MessageReads, the second switches to `reads`.
  void ReadNext();
  void ReadNext(MessageReads& reads);
  void Write(const grpc::ByteBuffer& bytes);  // one at a time
  // Call one of the two, once, from any thread.
  void Finish(const absl::Status& status);
  void WriteAndFinish(const grpc::ByteBuffer& bytes);  // OK
  // From now on `stream` may write, and its callbacks report its writes and the end of the call.
  void Attach(ByteStream* stream) ABSL_LOCKS_EXCLUDED(mu_);
  ByteStream* stream() ABSL_LOCKS_EXCLUDED(mu_);  // null if none is attached

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
  grpc::ByteBuffer message_, reply_;  // of the pending read and write

  absl::Mutex mu_;
  ByteStream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_SERVER_CALL_H_

// Listens for a gRPC server: a ConnectionAcceptor that hands its connections to the server. gRPC's own listener stops
// for good when accept fails for lack of descriptors, counts no connections and cannot set a socket's mode.
//
//   KINORA_ASSIGN_OR_RETURN(listener, GrpcListener::Bind(options));
//   listener->AddTo(builder, credentials);
//   server = builder.BuildAndStart();
//   listener->Serve();
//   …
//   listener->Stop();  // before server->Shutdown()
#ifndef KINORA_SERVER_NET_GRPC_LISTENER_H_
#define KINORA_SERVER_NET_GRPC_LISTENER_H_

#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/common/metrics.h"
#include "server/net/call_flood.h"
#include "server/net/connection_acceptor.h"

namespace kinora {

struct GrpcListenerOptions {
  std::string field;  // of the configuration, for messages
  std::string address;
  bool local_only = true;
  int max_connections = 0;
  int max_calls = 0;  // open at once per connection; the server's own limit must be the same
  std::function<void(ConnectionAcceptor::RejectReason)> refused;  // these two may be empty
  std::function<void(int open)> count;
};

// Makes `options` count in kinora_connections{field} and kinora_connections_refused_total{field,reason}. `metrics` must
// outlive the listener.
void CountConnections(FrontendMetrics& metrics, GrpcListenerOptions& options);

class GrpcListener {
 public:
  // Errors: those of ListeningSockets::Bind.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Bind(GrpcListenerOptions options);
  ~GrpcListener() { Stop(); }

  void AddTo(grpc::ServerBuilder& builder, const std::shared_ptr<grpc::ServerCredentials>& credentials);
  void Serve();
  void Stop();
  int port() const { return acceptor_->port(); }  // 0 on a Unix socket

  // Connects to itself as a client would, but without TLS, and calls the server's health check. Returns OK if the
  // server answers within `patience`, whatever the answer. One call at a time.
  absl::Status CheckSelf(absl::Duration patience);

 private:
  using Handover = std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;
  static constexpr int kDroppedAtOnce = 1000;  // calls that a client may begin and drop at once
  explicit GrpcListener(int max_calls) : flood_(max_calls + kDroppedAtOnce) {}

  CallFlood flood_;  // this and the next are used only by the acceptor's thread
  bool memory_to_give_back_ = false;
  Handover clients_, own_;  // to the server; must outlive the acceptor
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_GRPC_LISTENER_H_

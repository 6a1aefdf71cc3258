// A worker's end of the Join stream (worker.proto): sends Hello, heartbeats and the rank's messages, and delivers the
// frontend's messages. A worker exits once its stream breaks; the frontend or another supervisor starts a new one.
#ifndef KINORA_SERVER_WORKER_JOIN_CLIENT_H_
#define KINORA_SERVER_WORKER_JOIN_CLIENT_H_

#include <grpcpp/security/credentials.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "kinora/v1/worker.grpc.pb.h"

namespace kinora {

struct JoinTarget {
  std::string address;                                              // "unix:PATH", "host:port"
  std::string token{};                                              // empty: no token is sent
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // null: plain text
  std::string certified_name{};  // that the frontend's certificate must have; "": the host of `address`
};

class JoinClient {
 public:
  // Blocks until the frontend has answered Hello with Welcome, which may be a redirect. Fails with Unavailable if there
  // is no connection to `target` within `patience`, not counting time during which this process was stopped, or with
  // the status by which the frontend rejects the worker. steady: the clock for patience and heartbeats.
  static absl::StatusOr<std::unique_ptr<JoinClient>> Join(const JoinTarget& target, const v1::Hello& hello,
                                                          absl::Duration patience, Clock& steady = Clock::Steady());
  ~JoinClient() { End(); }

  const v1::Welcome& welcome() const { return welcome_; }

  // Starts two threads. One calls `on_message` with each message and, when the stream has ended, `on_end` once with the
  // reason. The other sends `heartbeat()` every Welcome.heartbeat_interval. No callback may call ~JoinClient.
  void Start(std::function<v1::Heartbeat()> heartbeat, std::function<void(const v1::FrontendMessage&)> on_message,
             std::function<void(const absl::Status&)> on_end);

  void Send(const v1::WorkerMessage& message);  // any thread; does nothing once the stream has ended
  void End();  // cancels the stream and joins the threads, so no callback runs after it; idempotent

 private:
  using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::FrontendMessage>;

  explicit JoinClient(Clock& steady) : steady_(steady) {}
  void Read(const std::function<void(const v1::FrontendMessage&)>& on_message,
            const std::function<void(const absl::Status&)>& on_end);
  void Beat(const std::function<v1::Heartbeat()>& heartbeat);

  Clock& steady_;
  std::unique_ptr<v1::WorkerControl::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  v1::Welcome welcome_;
  absl::Mutex write_mu_;  // a stream allows one write at a time; acquired before mu_
  absl::Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread reader_, beater_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_JOIN_CLIENT_H_

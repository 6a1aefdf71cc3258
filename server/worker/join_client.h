// A worker's end of the Join stream (worker.proto): says Hello, beats, sends what the rank says and hands over what the
// frontend says. The stream is the worker's life: once it breaks the worker leaves, and whoever started it starts
// another.
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
  std::string token{};                                              // empty: none is shown
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // null: plain text
};

class JoinClient {
 public:
  // Blocks until the frontend has answered Hello with Welcome. Unavailable: no connection to `target` for `patience`,
  // in which the time that this process was stopped does not count; otherwise the frontend's refusal. steady: times
  // patience and heartbeats.
  static absl::StatusOr<std::unique_ptr<JoinClient>> Join(const JoinTarget& target, const v1::Hello& hello,
                                                          absl::Duration patience, Clock& steady = Clock::Steady());
  ~JoinClient() { End(); }

  const v1::Welcome& welcome() const { return welcome_; }

  // Starts the two threads: one reads and runs `on_message`, then once `on_end` with why the stream ended; one sends
  // `heartbeat()` every Welcome.heartbeat_interval. Neither callback may call ~JoinClient.
  void Start(std::function<v1::Heartbeat()> heartbeat, std::function<void(const v1::FrontendMessage&)> on_message,
             std::function<void(const absl::Status&)> on_end);

  void Send(const v1::WorkerMessage& message);  // any thread; dropped once the stream has ended
  void End();  // breaks the stream and waits for the threads; no callback runs after it. Idempotent

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
  absl::Mutex write_mu_;  // a stream takes one write at a time; taken before mu_
  absl::Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread reader_, beater_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_JOIN_CLIENT_H_

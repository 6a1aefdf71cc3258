// A frontend that sends the messages a test tells it to send, over real Join streams.
#ifndef KINORA_TESTS_TESTING_FAKE_FRONTEND_H_
#define KINORA_TESTS_TESTING_FAKE_FRONTEND_H_

#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kinora/v1/worker.pb.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

class FakeFrontend {
 public:
  // Answers a Hello with a Welcome, or ends the stream with `refusal` if that is an error.
  explicit FakeFrontend(absl::Duration heartbeat_interval = absl::Seconds(30), absl::Status refusal = {});
  ~FakeFrontend();

  const std::string& address() const { return address_; }
  // Returns the next message that is not a heartbeat (Next) or is one (NextHeartbeat). CHECK-fails after 30 s of
  // silence.
  v1::WorkerMessage Next() { return Take(/*heartbeats=*/false); }
  v1::Heartbeat NextHeartbeat() { return Take(/*heartbeats=*/true).heartbeat(); }
  void Send(const v1::FrontendMessage& message);
  // Breaks the stream, as if the frontend had died.
  void Break();

 private:
  class Service;
  struct Inbox {
    absl::Mutex mu;
    std::deque<v1::WorkerMessage> heartbeats ABSL_GUARDED_BY(mu), others ABSL_GUARDED_BY(mu);
  };
  v1::WorkerMessage Take(bool heartbeats);

  TemporaryDirectory directory_;
  const std::string address_;
  Inbox inbox_;
  std::unique_ptr<Service> service_;
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FAKE_FRONTEND_H_

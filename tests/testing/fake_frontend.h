// A frontend that says what a test tells it to, over real Join streams.
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
  // Answers a Hello with a Welcome, or ends the stream with `refusal`.
  explicit FakeFrontend(absl::Duration heartbeat_interval = absl::Seconds(30), absl::Status refusal = {});
  ~FakeFrontend();

  const std::string& address() const { return address_; }
  // The next message of the worker that is no heartbeat (or is one); CHECK-fails after 30 s of silence.
  v1::WorkerMessage Next() { return Take(/*heartbeats=*/false); }
  v1::Heartbeat NextHeartbeat() { return Take(/*heartbeats=*/true).heartbeat(); }
  void Send(const v1::FrontendMessage& message);
  // Breaks the stream, as a frontend that dies.
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

// A RankLink that records the frontend's messages to the rank, so that tests can wait for them.
#ifndef KINORA_TESTS_TESTING_RECORDING_LINK_H_
#define KINORA_TESTS_TESTING_RECORDING_LINK_H_

#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "server/frontend/groups/worker_group.h"

namespace kinora {

class RecordingLink : public RankLink {
 public:
  void Send(v1::FrontendMessage message) override {
    absl::MutexLock lock(&mu_);
    messages_.push_back(std::move(message));
  }
  void Close(const absl::Status& status) override {
    absl::MutexLock lock(&mu_);
    closed_ = status;
  }

  // Removes and returns the next message. CHECK-fails after 30 s of silence.
  v1::FrontendMessage Next() {
    const auto any = [this] {
      mu_.AssertHeld();
      return !messages_.empty();
    };
    absl::MutexLock lock(&mu_);
    KINORA_CHECK(mu_.AwaitWithTimeout(absl::Condition(&any), absl::Seconds(30))) << "no message came";
    v1::FrontendMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  absl::Status AwaitClosed() {
    const auto closed = [this] {
      mu_.AssertHeld();
      return closed_.has_value();
    };
    absl::MutexLock lock(&mu_);
    KINORA_CHECK(mu_.AwaitWithTimeout(absl::Condition(&closed), absl::Seconds(30))) << "the link was not closed";
    return *closed_;
  }
  void ReadOn() override {
    absl::MutexLock lock(&mu_);
    ++read_on_;
  }
  int read_on() const {
    absl::MutexLock lock(&mu_);
    return read_on_;
  }
  bool closed() const {
    absl::MutexLock lock(&mu_);
    return closed_.has_value();
  }
  bool empty() const {
    absl::MutexLock lock(&mu_);
    return messages_.empty();
  }

 private:
  mutable absl::Mutex mu_;
  std::deque<v1::FrontendMessage> messages_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
  int read_on_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_RECORDING_LINK_H_

// Counts calls, so that what they use outlives them.
#ifndef KINORA_SERVER_NET_CALL_COUNT_H_
#define KINORA_SERVER_NET_CALL_COUNT_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kinora {

class CallCount {  // thread-safe
 public:
  CallCount() = default;
  ~CallCount() {  // waits until all have ended
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](int* calls) { return *calls == 0; }, &calls_));
  }
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;

  // Returns what a call keeps until its end.
  std::shared_ptr<void> Begin() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    calls_ += 1;
    return {this, [](CallCount* count) { count->End(); }};
  }

 private:
  void End() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    calls_ -= 1;
  }

  absl::Mutex mu_;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_CALL_COUNT_H_

// A server that calls itself: what tells a process that serves from one that only runs. After three failures in a row
// it is not live, so that whoever watches /livez starts it anew; one success makes it live again.
#ifndef KINORA_SERVER_FRONTEND_API_SELF_CHECK_H_
#define KINORA_SERVER_FRONTEND_API_SELF_CHECK_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

constexpr absl::Duration kSelfCheckInterval = absl::Seconds(10);
constexpr absl::Duration kSelfCheckPatience = absl::Seconds(5);  // for one answer

class SelfCheck {
 public:
  // `check` runs on a thread of its own, first after kSelfCheckInterval, and ends within kSelfCheckPatience.
  SelfCheck(std::function<absl::Status()> check, Clock& clock);
  ~SelfCheck();

  absl::Status Live() const;  // Unavailable with what the last check said

 private:
  void Run();

  const std::function<absl::Status()> check_;
  Clock& clock_;
  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  int failures_ ABSL_GUARDED_BY(mu_) = 0;  // in a row
  absl::Status last_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_SELF_CHECK_H_

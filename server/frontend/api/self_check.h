// Detects a server that runs but does not serve, by calling it regularly. After three failures in a row it is not live,
// so that a monitor of /livez restarts it; one success makes it live again.
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
constexpr absl::Duration kSelfCheckPatience = absl::Seconds(5);  // limit for one check

class SelfCheck {
 public:
  // `check` runs on a separate thread, first after kSelfCheckInterval. It must return within kSelfCheckPatience.
  SelfCheck(std::function<absl::Status()> check, Clock& clock);
  ~SelfCheck();

  absl::Status Live() const;  // Unavailable with the message of the last check

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

// Whether a store may still acknowledge changes: not once its files are gone, or another process has taken its place.
// That is final for this process. Thread-safe.
#ifndef KINORA_SERVER_FRONTEND_JOBS_STATE_GUARD_H_
#define KINORA_SERVER_FRONTEND_JOBS_STATE_GUARD_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/frontend/jobs/state_watch.h"

namespace kinora {

class StateGuard {
 public:
  // watch: files and folders that must stay in place. on_lost: called once when the state is lost; on any thread.
  StateGuard(StateWatch watch, std::function<void()> on_lost)
      : watch_(std::move(watch)), on_lost_(std::move(on_lost)) {}

  // Unavailable, with why, once the state is lost: STATE_LOST if a watched file was found missing or replaced.
  absl::Status Check();
  void Lose(const absl::Status& why);  // the first counts

 private:
  const StateWatch watch_;
  const std::function<void()> on_lost_;
  absl::Mutex mu_;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_STATE_GUARD_H_

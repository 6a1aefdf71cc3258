// Detects a configuration with which no group can load its model, so that the frontend exits as --check-config would
// instead of waiting for files that nobody provides.
#ifndef KINORA_SERVER_FRONTEND_WRONG_START_H_
#define KINORA_SERVER_FRONTEND_WRONG_START_H_

#include <functional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

class WrongStart {  // thread-safe
 public:
  explicit WrongStart(v1::FrontendConfig config) : config_(std::move(config)) {}

  // A group is ready: later failures are not the start's.
  void NoteReady() ABSL_LOCKS_EXCLUDED(mu_);
  // The processes of a supervised group have ended, for instance with "exit status 2". Once every group has ended with
  // that status, and no group is started outside, runs CheckWorkers, which takes at most 10 s per group.
  void NoteEnd(const std::string& group, const std::string& how) ABSL_LOCKS_EXCLUDED(mu_);
  // `listener` is called once with the error of CheckWorkers, on any thread; at once if it is already known.
  void SetListener(std::function<void(const absl::Status&)> listener) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const v1::FrontendConfig config_;
  absl::Mutex mu_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  std::set<std::string> wrong_ ABSL_GUARDED_BY(mu_);  // groups
  absl::Status found_ ABSL_GUARDED_BY(mu_);
  std::function<void(const absl::Status&)> listener_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_WRONG_START_H_

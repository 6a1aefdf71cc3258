// Whether this rank's machine can run jobs. A fault of the machine must not fail a job.
#ifndef KINORA_SERVER_WORKER_FITNESS_H_
#define KINORA_SERVER_WORKER_FITNESS_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace kinora {

class Fitness {  // thread-safe
 public:
  // look: returns the machine's present fault, in one sentence. An empty function: the machine is always fit.
  explicit Fitness(std::function<absl::Status()> look = {}) : look_(std::move(look)) {}

  absl::Status Look() ABSL_LOCKS_EXCLUDED(mu_);        // calls look, logs a change
  absl::Status last() const ABSL_LOCKS_EXCLUDED(mu_);  // result of the last Look; OK before the first

 private:
  const std::function<absl::Status()> look_;
  mutable absl::Mutex mu_;
  absl::Status last_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_FITNESS_H_

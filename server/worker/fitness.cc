#include "server/worker/fitness.h"

#include "engine/base/logging.h"

namespace kinora {

absl::Status Fitness::Look() {
  absl::Status found = look_ ? look_() : absl::OkStatus();
  absl::MutexLock lock(&mu_);
  if (found.ok() != last_.ok()) {
    Log(found.ok() ? Severity::kInfo : Severity::kWarning, found.ok() ? "worker_fit" : "worker_unfit",
        {{"why", std::string(found.message())}});
  }
  last_ = found;
  return found;
}

absl::Status Fitness::last() const {
  absl::MutexLock lock(&mu_);
  return last_;
}

}  // namespace kinora

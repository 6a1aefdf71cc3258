#include "server/frontend/jobs/state_guard.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "server/common/status_details.h"

namespace kinora {

absl::Status StateGuard::Check() {
  absl::Status lost;
  {
    absl::MutexLock lock(&mu_);
    if (!lost_.ok()) return lost_;
    absl::Status found = watch_.Check();
    if (found.ok()) return found;
    lost = lost_ = WithErrorInfo(absl::UnavailableError("the server's state files were moved, removed or replaced "
                                                        "while it was running; it accepts no more jobs until it is "
                                                        "restarted"),
                                 "STATE_LOST");
    Log(Severity::kError, "state_lost",
        {{"why", std::string(found.message())},
         {"do", absl::StrCat("stop the frontend, restore the files and start it again; while it runs, deleted files "
                             "can be copied from /proc/",
                             getpid(), "/fd")}});
  }
  if (on_lost_) on_lost_();
  return lost;
}

void StateGuard::Lose(const absl::Status& why) {
  {
    absl::MutexLock lock(&mu_);
    if (!lost_.ok()) return;
    lost_ = why;
  }
  if (on_lost_) on_lost_();
}

}  // namespace kinora

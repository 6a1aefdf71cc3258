#include "server/frontend/wrong_start.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "server/config/config.h"
#include "server/frontend/worker_check.h"

namespace kinora {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);  // stopping the frontend waits for it

}  // namespace

void WrongStart::NoteReady() {
  absl::MutexLock lock(&mu_);
  over_ = true;
}

void WrongStart::NoteEnd(const std::string& group, const std::string& how) {
  {
    absl::MutexLock lock(&mu_);
    if (over_ || !OutsideGroupsOf(config_).empty() || !config_.join_address().empty()) return;
    if (!absl::EndsWith(how, "exit status 2")) {
      over_ = true;  // another failure may be temporary
      return;
    }
    wrong_.insert(group);
    if (wrong_.size() < GroupsOf(config_).size()) return;
    over_ = true;
  }
  const absl::Status found = CheckWorkers(config_, kPatience);
  if (found.ok()) return;  // the files have changed meanwhile
  absl::MutexLock lock(&mu_);
  found_ = found;
  if (listener_) listener_(found);
}

void WrongStart::SetListener(std::function<void(const absl::Status&)> listener) {
  absl::MutexLock lock(&mu_);
  listener_ = std::move(listener);
  if (!found_.ok()) listener_(found_);
}

}  // namespace kinora

#include "server/worker/join_rendezvous.h"

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"

namespace kinora {

void JoinRendezvous::Publish(const std::string& key, const std::string& value) {
  v1::WorkerMessage message;
  message.mutable_rendezvous()->set_key(key);
  message.mutable_rendezvous()->set_value(value);
  send_(message);
}

absl::StatusOr<std::string> JoinRendezvous::Await(int rank, const std::string& key, absl::Duration patience) {
  const std::pair<int, std::string> wanted(rank, key);
  const auto there = [&] {
    mu_.AssertHeld();
    return !aborted_.ok() || published_.contains(wanted);
  };
  Clock& steady = Clock::Steady();
  absl::MutexLock lock(&mu_);
  if (!steady.AwaitUntil(mu_, absl::Condition(&there), steady.Now() + patience)) {
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", rank, " has not published \"", key, "\" for ", absl::FormatDuration(patience)));
  }
  if (!aborted_.ok()) return aborted_;
  return published_[wanted];
}

void JoinRendezvous::Receive(const v1::Rendezvous& published) {
  absl::MutexLock lock(&mu_);
  published_[{published.rank(), published.key()}] = published.value();
}

void JoinRendezvous::Abort(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  if (aborted_.ok()) aborted_ = why;
}

}  // namespace kinora

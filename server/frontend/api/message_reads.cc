#include "server/frontend/api/message_reads.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"

namespace kinora {

int64_t MessageReads::Begin(GiveUp give_up) {
  GiveUp oldest;
  int64_t read;
  {
    absl::MutexLock lock(&mu_);
    read = ++last_;
    const absl::Time deadline = loop_.Now() + limits_.time;
    reads_.emplace(read, Read{.deadline = deadline, .give_up = std::move(give_up)});
    if (static_cast<int>(reads_.size()) > limits_.calls) {
      oldest = std::move(reads_.begin()->second.give_up);
      reads_.erase(reads_.begin());
    }
    if (!std::exchange(timer_set_, true)) loop_.PostAt(deadline, [this] { GiveUpLate(); });
  }
  if (oldest) {
    oldest(
        WithRetryInfo(absl::ResourceExhaustedError(absl::StrCat(
                          "more than ", limits_.calls, " calls have not sent their message; send it with the headers")),
                      absl::Seconds(1)));
  }
  return read;
}

bool MessageReads::End(int64_t read) {
  absl::MutexLock lock(&mu_);
  return reads_.erase(read) > 0;
}

void MessageReads::GiveUpLate() {
  std::vector<GiveUp> late;
  {
    absl::MutexLock lock(&mu_);
    const absl::Time now = loop_.Now();
    while (!reads_.empty() && reads_.begin()->second.deadline <= now) {
      late.push_back(std::move(reads_.begin()->second.give_up));
      reads_.erase(reads_.begin());
    }
    timer_set_ = !reads_.empty();
    if (timer_set_) loop_.PostAt(reads_.begin()->second.deadline, [this] { GiveUpLate(); });
  }
  for (const GiveUp& give_up : late) {
    give_up(absl::DeadlineExceededError(
        absl::StrCat("the message did not arrive within ", absl::FormatDuration(limits_.time))));
  }
}

}  // namespace kinora

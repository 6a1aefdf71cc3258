// Of questions to the frontend over the Join stream that are asked one at a time: where the answer to the present one
// is waited for. Thread-safe.
#ifndef KINORA_SERVER_WORKER_ANSWER_SLOT_H_
#define KINORA_SERVER_WORKER_ANSWER_SLOT_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace kinora {

template <typename Answer>
class AnswerSlot {
 public:
  // Calls `ask` and waits for an answer that `answers` it; others are dropped. The error of Abort, if that comes first
  // or has come. One at a time.
  absl::StatusOr<Answer> Ask(const std::function<void()>& ask, const std::function<bool(const Answer&)>& answers) {
    {
      absl::MutexLock lock(&mu_);
      answer_.reset();
    }
    ask();
    const auto answered = [&] {
      mu_.AssertHeld();
      return !aborted_.ok() || (answer_ && answers(*answer_));
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&answered));
    if (!aborted_.ok()) return aborted_;
    return *std::exchange(answer_, std::nullopt);
  }

  // From the stream.
  void Receive(Answer answer) {
    absl::MutexLock lock(&mu_);
    answer_ = std::move(answer);
  }
  // Ends every Ask, now and later, with `why`, which is not OK. The first counts.
  void Abort(const absl::Status& why) {
    absl::MutexLock lock(&mu_);
    if (aborted_.ok()) aborted_ = why;
  }

 private:
  absl::Mutex mu_;
  std::optional<Answer> answer_ ABSL_GUARDED_BY(mu_);  // not yet taken
  absl::Status aborted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_ANSWER_SLOT_H_

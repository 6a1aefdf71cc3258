// Waits for the frontend's answer to a request over the Join stream, for requests that are sent one at a time.
// Thread-safe.
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
  // Calls `ask` and returns the first answer for which `answers` is true; drops other answers. Fails with Abort's error
  // if Abort was called before the answer arrived, and with Cancelled after Interrupt. One call at a time.
  absl::StatusOr<Answer> Ask(const std::function<void()>& ask, const std::function<bool(const Answer&)>& answers) {
    {
      absl::MutexLock lock(&mu_);
      answer_.reset();
    }
    ask();
    const auto answered = [&] {
      mu_.AssertHeld();
      return !aborted_.ok() || interrupted_ || (answer_ && answers(*answer_));
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&answered));
    if (!aborted_.ok()) return aborted_;
    if (interrupted_) return absl::CancelledError("given up");
    return *std::exchange(answer_, std::nullopt);
  }

  // Called with each answer that the stream delivers.
  void Receive(Answer answer) {
    absl::MutexLock lock(&mu_);
    answer_ = std::move(answer);
  }
  // Ends every present and later Ask with `why`, which must not be OK. Only the first call has an effect.
  void Abort(const absl::Status& why) {
    absl::MutexLock lock(&mu_);
    if (aborted_.ok()) aborted_ = why;
  }
  // Ends the present Ask and every later one until Resume.
  void Interrupt() { SetInterrupted(true); }
  void Resume() { SetInterrupted(false); }

 private:
  void SetInterrupted(bool interrupted) {
    absl::MutexLock lock(&mu_);
    interrupted_ = interrupted;
  }

  absl::Mutex mu_;
  std::optional<Answer> answer_ ABSL_GUARDED_BY(mu_);  // not yet returned
  absl::Status aborted_ ABSL_GUARDED_BY(mu_);
  bool interrupted_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_ANSWER_SLOT_H_

// One watcher's stream of a job's events: a snapshot, the stored events after a sequence, then each stored event once
// and in order, with the latest step, preview and heartbeat in between. It delivers event n only after event n - 1: it
// drops news that repeat an event, and reads the stored events when news skip one. Thread-safe.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_WATCH_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_WATCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/frontend/jobs/event_source.h"

namespace kinora {

class JobWatch : public std::enable_shared_from_this<JobWatch> {
 public:
  // Subscribes; fails as EventSource::Subscribe. The source must outlive the watch. `wake` runs when Next may have an
  // event or an error, on threads of the source; it must not block.
  static absl::StatusOr<std::shared_ptr<JobWatch>> Open(EventSource& source, const JobId& id, int64_t after_sequence,
                                                        std::function<void()> wake);
  // Reads the stored events. Call once, when ready to be woken.
  void Start() { Read(after_sequence_); }

  // Returns the next event, or nullopt if there is none yet. A step, a preview and a heartbeat bear the sequence of the
  // last stored event; the snapshot bears after_sequence, so that a client that loses its stream can resume there. If
  // the job ended with event after_sequence, that event follows the snapshot once more.
  //
  // Errors end the watch: those of EventSource::EventsAfter, InvalidArgument (after_sequence is after the last event),
  // DataLoss (a stored event is missing).
  absl::StatusOr<std::optional<v1::VideoEvent>> Next();

  void Close() { mailbox_->Close(); }  // as Subscription::Close, except that one call of `wake` may still follow a read

 private:
  JobWatch(EventSource& source, const JobId& id, int64_t after_sequence, std::function<void()> wake);
  void Read(int64_t after);
  void OnRead(absl::StatusOr<JobHistory> history);
  absl::Status Begin(JobHistory history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CloseGap(JobHistory history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the next event of the mailbox, or sets awaited_ to its sequence if events before it are missing.
  std::optional<v1::VideoEvent> NextNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  EventSource& source_;
  const JobId id_;
  const int64_t after_sequence_;
  const std::function<void()> wake_;
  std::shared_ptr<Subscription> mailbox_;  // constant after Open
  absl::Mutex mu_;
  std::deque<v1::VideoEvent> read_ ABSL_GUARDED_BY(mu_);  // to be delivered before the mailbox's events
  int64_t last_ ABSL_GUARDED_BY(mu_);                     // sequence of the last stored event that was delivered
  int64_t awaited_ ABSL_GUARDED_BY(mu_) = 0;              // the read must include this event
  bool begun_ ABSL_GUARDED_BY(mu_) = false;               // the first read has ended
  bool reading_ ABSL_GUARDED_BY(mu_) = true;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_WATCH_H_

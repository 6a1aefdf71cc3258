// The writing side of SqliteJobStore: takes batches of writes to the disk, each batch as one transaction, and answers
// each of them. Knows what a disk does to a store:
//   full     what ends or removes jobs has a reserve (disk_reserve.h); everything else is refused with DISK_FULL until
//   the
//            reserve is whole again
//   failing  one line per minute in the log, and the seconds for a gauge
//   gone     files that were removed, moved or replaced (state_watch.h): nothing is acknowledged any more
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_COMMITTER_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_COMMITTER_H_

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/log_throttle.h"
#include "server/frontend/jobs/disk_reserve.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/job_tables.h"
#include "server/frontend/jobs/state_watch.h"

namespace kinora {

enum class Room { kTakes, kFrees };  // kFrees: ends or removes a job, and may use the reserve

struct StoreWrite {
  using Events = std::vector<v1::VideoEvent>;
  Room room = Room::kTakes;
  absl::AnyInvocable<absl::Status(JobTables&, Events&)>
      apply;                                      // in a transaction; again after one that was rolled back
  absl::AnyInvocable<void(absl::Status)> finish;  // the commit's or apply's status
  Events events{};                                // stored by apply
  absl::Status status{};
};

struct JobCommitterOptions {
  StateWatch watch{};               // of all that must stay in its place
  std::function<void()> on_lost{};  // once, when something did not; on any thread
};

class JobCommitter {
 public:
  // `reserve_path` "": none (a store in memory).
  JobCommitter(std::unique_ptr<JobTables> tables, DiskReserve reserve, Clock& clock, EventListener listener,
               JobCommitterOptions options);

  void Commit(std::deque<StoreWrite>& batch);  // blocks; one thread at a time

  // Unavailable (STATE_LOST) from when a file that is watched was found gone or replaced, for good. Thread-safe.
  absl::Status CheckState();
  // How long commits have failed; 0: the last one did not. Thread-safe.
  absl::Duration Unwritable() const;

 private:
  using Writes = std::vector<StoreWrite*>;

  absl::Status CommitWithReserve(Writes& writes);
  absl::Status TryCommit(const Writes& writes);
  absl::Status ApplyAll(const Writes& writes);
  void Note(const absl::Status& status);  // how a commit went, or what was refused without one
  bool failing() const;

  const std::unique_ptr<JobTables> tables_;
  DiskReserve reserve_;
  Clock& clock_;
  const EventListener listener_;
  const JobCommitterOptions options_;
  LogThrottle failures_;
  bool failure_told_ = false;

  mutable absl::Mutex mu_;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);
  absl::Time failing_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_COMMITTER_H_

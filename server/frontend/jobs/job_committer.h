// The writing side of SqliteFile: commits batches of writes, each batch in one transaction, and answers each write.
// It handles three disk problems:
//   full     writes that end or remove jobs use a reserve (disk_reserve.h); others fail with DISK_FULL until the
//            reserve is full again
//   failing  logs one line per minute, and reports the time for a gauge
//   gone     acknowledges nothing more once files were removed, moved or replaced (state_watch.h)
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
#include "server/common/log_limit.h"
#include "server/frontend/jobs/commit_mark.h"
#include "server/frontend/jobs/disk_reserve.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/sqlite_job_tables.h"
#include "server/frontend/jobs/state_guard.h"
#include "server/frontend/jobs/state_watch.h"

namespace kinora {

struct StoreWrite {
  using Events = std::vector<v1::VideoEvent>;
  Room room = Room::kTakes;
  // Runs in a transaction; again if that was rolled back.
  absl::AnyInvocable<absl::Status(SqliteJobTables&, Events&)> apply;
  absl::AnyInvocable<void(absl::Status)> finish;  // with the status of apply or the commit
  Events events{};                                // stored by apply
  absl::Status status{};
};

struct JobCommitterOptions {
  StateWatch watch{};               // files and folders that must stay in place
  std::function<void()> on_lost{};  // called once when one does not; on any thread
  int64_t accept_lost_commits = 0;  // FrontendConfig.accept_lost_commits
};

class JobCommitter {
 public:
  struct Files {
    DiskReserve reserve;
    CommitMarkFile mark;
    CommitMark last;  // as stored
  };
  JobCommitter(std::unique_ptr<SqliteJobTables> tables, Files files, Clock& clock, EventListener listener,
               JobCommitterOptions options);

  void Commit(std::deque<StoreWrite>& batch);  // blocks; one thread at a time

  absl::Status CheckState() { return guard_.Check(); }  // thread-safe
  // Time for which commits have failed; 0 if the last one succeeded. Thread-safe.
  absl::Duration Unwritable() const;

 private:
  using Writes = std::vector<StoreWrite*>;

  absl::Status CommitWithReserve(Writes& writes);
  absl::Status TryCommit(const Writes& writes);
  absl::Status ApplyAll(const Writes& writes);
  void Mark();
  void Note(const absl::Status& status);  // status of a commit, or of refilling the reserve
  bool failing() const;

  const std::unique_ptr<SqliteJobTables> tables_;
  DiskReserve reserve_;
  CommitMarkFile mark_;
  CommitMark last_;  // last commit
  int64_t marked_;
  Clock& clock_;
  const EventListener listener_;
  StateGuard guard_;
  LogLimit failures_{absl::Minutes(1), clock_};
  bool failure_told_ = false;

  mutable absl::Mutex mu_;
  absl::Time failing_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_COMMITTER_H_

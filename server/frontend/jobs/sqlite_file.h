// The file of the stores in SQLite. One writer thread commits all waiting calls together (group commit: one fsync for
// all of them); reader threads have their own connections and see committed data. A failed commit fails each of its
// calls. The file belongs to one process, which must hold the lock of its directory (state_directory.h).
// job_committer.h describes how it handles a full, failing or lost disk.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_FILE_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_FILE_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/frontend/jobs/job_committer.h"
#include "server/frontend/jobs/sqlite_job_tables.h"
#include "server/frontend/jobs/store_call.h"

namespace kinora {

class SqliteFile : public JobTransactions {
 public:
  // `path` ":memory:" stores nothing on disk, for --store=memory and tests; reads then run on the writer thread.
  // Otherwise options.watch also watches `path` and its log, "<path>.reserve" is disk space for deletes on a full disk,
  // and "<path>.commits" has the number of the last commit (commit_mark.h). DataLoss also if commits are missing.
  static absl::StatusOr<std::unique_ptr<SqliteFile>> Open(const std::string& path, Clock& clock, EventListener listener,
                                                          JobCommitterOptions options);
  ~SqliteFile() override;  // finishes pending calls first

  // Runs `apply` in a transaction, and `done` after the commit with the status of either.
  void Write(Room room, absl::AnyInvocable<absl::Status(SqliteJobTables&, Events&)> apply, Finished done);
  template <typename T>
  void Write(Room room, absl::AnyInvocable<absl::StatusOr<T>(SqliteJobTables&, Events&)> apply, Done<T> done) {
    auto result = std::make_shared<absl::StatusOr<T>>(absl::UnknownError("not run"));
    Write(
        room,
        [apply = std::move(apply), result](SqliteJobTables& tables, Events& events) mutable {
          *result = apply(tables, events);
          return result->status();
        },
        [done = std::move(done), result](absl::Status status) mutable {
          if (status.ok()) {
            done(*std::move(result));
          } else {
            done(std::move(status));
          }
        });
  }
  template <typename T>
  void Read(absl::AnyInvocable<absl::StatusOr<T>(SqliteJobTables&)> read, Done<T> done) {
    if (reader_tables_.empty()) {
      return Write<T>(
          Room::kFrees, [read = std::move(read)](SqliteJobTables& tables, Events&) mutable { return read(tables); },
          std::move(done));
    }
    PostRead([read = std::move(read), done = std::move(done)](SqliteJobTables& tables) mutable { done(read(tables)); });
  }

  void WriteJob(const JobId&, Room room, absl::AnyInvocable<absl::Status(JobTables&, Events&)> apply,
                Finished done) override {
    Write(
        room,
        [apply = std::move(apply)](SqliteJobTables& tables, Events& events) mutable { return apply(tables, events); },
        std::move(done));
  }
  void ReadJobs(absl::AnyInvocable<absl::Status(JobTables&)> read, Finished done) override;
  void Flush() override;

  // As in JobCommitter.
  absl::Status CheckState() { return committer_->CheckState(); }
  absl::Duration Unwritable() const { return committer_->Unwritable(); }

 private:
  using ReadTask = absl::AnyInvocable<void(SqliteJobTables&)>;

  SqliteFile() = default;
  void PostRead(ReadTask read);
  void RunWriter();
  void RunReader(SqliteJobTables& tables);

  std::unique_ptr<JobCommitter> committer_;
  std::vector<std::unique_ptr<SqliteJobTables>> reader_tables_;

  absl::Mutex mu_;
  std::deque<StoreWrite> writes_ ABSL_GUARDED_BY(mu_);
  std::deque<ReadTask> reads_ ABSL_GUARDED_BY(mu_);
  int64_t pending_ ABSL_GUARDED_BY(mu_) = 0;  // calls whose `done` has not returned
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread writer_;
  std::vector<std::thread> readers_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_FILE_H_

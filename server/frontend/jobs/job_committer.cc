#include "server/frontend/jobs/job_committer.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/job_schema.h"

namespace kinora {

JobCommitter::JobCommitter(std::unique_ptr<JobTables> tables, DiskReserve reserve, Clock& clock, EventListener listener,
                           JobCommitterOptions options)
    : tables_(std::move(tables)),
      reserve_(std::move(reserve)),
      clock_(clock),
      listener_(std::move(listener)),
      options_(std::move(options)) {
  if (const absl::Status status = reserve_.Fill(); !status.ok()) Note(status);
}

void JobCommitter::Commit(std::deque<StoreWrite>& batch) {
  absl::Status status = CheckState();
  if (status.ok()) {
    const absl::Status room = reserve_.Fill();
    Writes writes;
    for (StoreWrite& write : batch) {
      write.status = write.room == Room::kFrees ? absl::OkStatus() : room;
      if (write.status.ok()) writes.push_back(&write);
    }
    status = CommitWithReserve(writes);
    Note(status.ok() ? reserve_.Fill() : status);
    if (status.ok()) status = CheckState();  // what was written may have gone to a file that nobody finds again
  }
  for (StoreWrite& write : batch) {
    if (!status.ok() && write.status.ok()) write.status = status;
    if (write.status.ok()) {
      for (const v1::VideoEvent& event : write.events) listener_(event);
    }
    write.finish(std::move(write.status));
  }
}

absl::Status JobCommitter::CommitWithReserve(Writes& writes) {
  absl::Status status = TryCommit(writes);
  if (!absl::IsResourceExhausted(status)) return status;
  for (StoreWrite* write : writes) {
    if (write->room == Room::kTakes) write->status = status;
  }
  std::erase_if(writes, [](const StoreWrite* write) { return write->room == Room::kTakes; });
  while (!writes.empty() && absl::IsResourceExhausted(status) && reserve_.Release()) {
    // What needs no new pages in jobs.db itself leaves the log, which is then written from its beginning.
    (void)tables_->database().Execute("PRAGMA wal_checkpoint(PASSIVE)");
    status = TryCommit(writes);
  }
  return status;
}

absl::Status JobCommitter::TryCommit(const Writes& writes) {
  if (writes.empty()) return absl::OkStatus();
  Database& database = tables_->database();
  absl::Status status = ApplyAll(writes);
  if (status.ok()) status = database.Execute("COMMIT");
  if (!status.ok() && database.in_transaction()) (void)database.Execute("ROLLBACK");
  return status;
}

absl::Status JobCommitter::ApplyAll(const Writes& writes) {
  Database& database = tables_->database();
  KINORA_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  // A commit that changes nothing writes nothing; while the store fails, each is to find out whether it still does.
  if (failing()) KINORA_RETURN_IF_ERROR(RewriteSchemaVersion(database));
  for (StoreWrite* write : writes) {
    KINORA_RETURN_IF_ERROR(database.Execute("SAVEPOINT one"));
    write->events.clear();
    write->status = write->apply(*tables_, write->events);
    // A full disk and its like end the whole transaction, and with it the calls before this one.
    if (!database.in_transaction()) return write->status;
    if (!write->status.ok()) KINORA_RETURN_IF_ERROR(database.Execute("ROLLBACK TO one"));
    KINORA_RETURN_IF_ERROR(database.Execute("RELEASE one"));
  }
  return absl::OkStatus();
}

void JobCommitter::Note(const absl::Status& status) {
  const absl::Time now = clock_.Now();
  const absl::Duration failing = Unwritable();
  {
    absl::MutexLock lock(&mu_);
    failing_since_ = status.ok() ? absl::InfiniteFuture() : std::min(failing_since_, now);
  }
  if (status.ok()) {
    if (std::exchange(failure_told_, false)) {
      Log(Severity::kInfo, "job_store_writes_again", {{"seconds", absl::ToInt64Seconds(failing)}});
    }
    return;
  }
  const int64_t commits = failures_.Count(now);
  if (commits == 0) return;
  failure_told_ = true;
  Log(Severity::kError, "job_store_commit_failed",
      {{"code", absl::StatusCodeToString(status.code())},
       {"why", std::string(status.message())},
       {"commits", commits},
       {"seconds", absl::ToInt64Seconds(failing)}});
}

absl::Status JobCommitter::CheckState() {
  {
    absl::MutexLock lock(&mu_);
    if (!lost_.ok()) return lost_;
    const absl::Status found = options_.watch.Check();
    if (found.ok()) return absl::OkStatus();
    lost_ =
        WithErrorInfo(absl::UnavailableError("the files that this server keeps were moved, removed or replaced while "
                                             "it ran; it takes nothing more until it is restarted"),
                      "STATE_LOST");
    Log(Severity::kError, "state_lost",
        {{"why", std::string(found.message())},
         {"do", absl::StrCat("stop the frontend, put back what was there and start it again; while it runs, deleted "
                             "files can be copied from /proc/",
                             getpid(), "/fd")}});
  }
  if (options_.on_lost) options_.on_lost();
  return CheckState();
}

bool JobCommitter::failing() const {
  absl::MutexLock lock(&mu_);
  return failing_since_ != absl::InfiniteFuture();
}

absl::Duration JobCommitter::Unwritable() const {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_.Now();
  return now - std::min(failing_since_, now);  // none of a time to come, and of a clock that was set back
}

}  // namespace kinora

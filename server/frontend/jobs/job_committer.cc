#include "server/frontend/jobs/job_committer.h"

#include <algorithm>
#include <utility>

#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/frontend/jobs/job_schema.h"

namespace kinora {

JobCommitter::JobCommitter(std::unique_ptr<SqliteJobTables> tables, Files files, Clock& clock, EventListener listener,
                           JobCommitterOptions options)
    : tables_(std::move(tables)),
      reserve_(std::move(files.reserve)),
      mark_(std::move(files.mark)),
      last_(std::move(files.last)),
      marked_(last_.number),
      clock_(clock),
      listener_(std::move(listener)),
      guard_(std::move(options.watch), std::move(options.on_lost)) {
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
    if (status.ok()) status = CheckState();  // the writes may have gone to a removed file
    if (status.ok()) Mark();
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
    // Moves pages from the log into existing pages of jobs.db, so that the log is written from its beginning.
    (void)tables_->database().Execute("PRAGMA wal_checkpoint(PASSIVE)");
    status = TryCommit(writes);
  }
  return status;
}

absl::Status JobCommitter::TryCommit(const Writes& writes) {
  if (writes.empty()) return absl::OkStatus();
  Database& database = tables_->database();
  const int64_t changes = database.changes();
  absl::Status status = ApplyAll(writes);
  // A commit without changes writes nothing. While the store fails, every commit writes, to find out whether it
  // recovered.
  const bool numbered = failing() || database.changes() != changes;
  if (status.ok() && numbered) status = WriteCommitNumber(database, last_.number + 1);
  if (status.ok()) status = database.Execute("COMMIT");
  if (!status.ok() && database.in_transaction()) (void)database.Execute("ROLLBACK");
  if (status.ok() && numbered) ++last_.number;
  return status;
}

// Called after COMMIT and its fsync have returned.
void JobCommitter::Mark() {
  if (std::exchange(marked_, last_.number) != last_.number) mark_.Write(last_);
}

absl::Status JobCommitter::ApplyAll(const Writes& writes) {
  Database& database = tables_->database();
  KINORA_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  for (StoreWrite* write : writes) {
    KINORA_RETURN_IF_ERROR(database.Execute("SAVEPOINT one"));
    write->events.clear();
    write->status = write->apply(*tables_, write->events);
    // Errors such as a full disk roll back the whole transaction, including earlier calls of the batch.
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
  const auto not_logged = failures_.Admit();
  if (!not_logged) return;
  failure_told_ = true;
  Log(Severity::kError, "job_store_commit_failed",
      {{"code", absl::StatusCodeToString(status.code())},
       {"why", std::string(status.message())},
       {"commits", 1 + *not_logged},
       {"seconds", absl::ToInt64Seconds(failing)}});
}

bool JobCommitter::failing() const {
  absl::MutexLock lock(&mu_);
  return failing_since_ != absl::InfiniteFuture();
}

absl::Duration JobCommitter::Unwritable() const {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_.Now();
  return now - std::min(failing_since_, now);  // 0 if not failing, or if the clock was set back
}

}  // namespace kinora

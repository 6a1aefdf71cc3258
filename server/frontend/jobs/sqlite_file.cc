#include "server/frontend/jobs/sqlite_file.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/frontend/jobs/job_schema.h"
#include "server/frontend/jobs/lost_commits.h"

namespace kinora {
namespace {

constexpr char kInMemory[] = ":memory:";
constexpr int kReaders = 2;
constexpr size_t kMaxBatch = 256;  // writes in one commit

// Writes nothing before it has checked for lost commits, and never reuses the number of a lost one.
absl::StatusOr<std::unique_ptr<SqliteJobTables>> OpenWhole(const std::string& path, const CommitMarkFile& mark,
                                                           Clock& clock, int64_t accept_lost_commits) {
  int64_t last = 0;
  if (path != kInMemory) {
    KINORA_ASSIGN_OR_RETURN(last, CheckCommits(path, mark.Read(), accept_lost_commits));
  }
  KINORA_ASSIGN_OR_RETURN(auto tables, SqliteJobTables::Open(path, clock));
  KINORA_RETURN_IF_ERROR(CheckIntegrity(tables->database()));
  KINORA_ASSIGN_OR_RETURN(const CommitMark stored, ReadLastCommit(tables->database()));
  if (stored.number < last) KINORA_RETURN_IF_ERROR(WriteCommitNumber(tables->database(), last));
  KINORA_RETURN_IF_ERROR(tables->LogDamaged());
  return tables;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteFile>> SqliteFile::Open(const std::string& path, Clock& clock,
                                                             EventListener listener, JobCommitterOptions options) {
  const bool on_disk = path != kInMemory;
  std::unique_ptr<SqliteFile> file(new SqliteFile());
  JobCommitter::Files files{.reserve = DiskReserve(on_disk ? absl::StrCat(path, ".reserve") : ""),
                            .mark = CommitMarkFile(on_disk ? absl::StrCat(path, ".commits") : "")};
  const auto open = [&] { return OpenWhole(path, files.mark, clock, options.accept_lost_commits); };
  absl::StatusOr<std::unique_ptr<SqliteJobTables>> opened = open();
  // On a full disk it starts with the space of the reserve, because only a running frontend can free space.
  if (absl::IsResourceExhausted(opened.status()) && files.reserve.Release()) {
    while (files.reserve.Release()) {
    }
    opened = open();
  }
  KINORA_RETURN_IF_ERROR(opened.status());
  KINORA_ASSIGN_OR_RETURN(files.last, ReadLastCommit((*opened)->database()));
  for (int i = 0; on_disk && i < kReaders; ++i) {
    KINORA_ASSIGN_OR_RETURN(file->reader_tables_.emplace_back(), SqliteJobTables::Open(path, clock));
  }
  for (const char* suffix : {"", "-wal"}) {
    if (on_disk) KINORA_RETURN_IF_ERROR(options.watch.Add(absl::StrCat(path, suffix)));
  }
  file->committer_ = std::make_unique<JobCommitter>(*std::move(opened), std::move(files), clock, std::move(listener),
                                                    std::move(options));
  file->writer_ = std::thread([self = file.get()] { self->RunWriter(); });
  for (const auto& tables : file->reader_tables_) {
    file->readers_.emplace_back([self = file.get(), &tables = *tables] { self->RunReader(tables); });
  }
  return file;
}

SqliteFile::~SqliteFile() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (writer_.joinable()) writer_.join();
  for (std::thread& reader : readers_) reader.join();
}

void SqliteFile::Write(Room room, absl::AnyInvocable<absl::Status(SqliteJobTables&, Events&)> apply, Finished done) {
  absl::MutexLock lock(&mu_);
  writes_.push_back({.room = room, .apply = std::move(apply), .finish = std::move(done)});
  pending_ += 1;
}

void SqliteFile::ReadJobs(absl::AnyInvocable<absl::Status(JobTables&)> read, Finished done) {
  if (!reader_tables_.empty()) {
    return PostRead(
        [read = std::move(read), done = std::move(done)](SqliteJobTables& tables) mutable { done(read(tables)); });
  }
  Write(
      Room::kFrees, [read = std::move(read)](SqliteJobTables& tables, Events&) mutable { return read(tables); },
      std::move(done));
}

void SqliteFile::PostRead(ReadTask read) {
  absl::MutexLock lock(&mu_);
  reads_.push_back(std::move(read));
  pending_ += 1;
}

void SqliteFile::RunWriter() {
  const auto work = [this] {
    mu_.AssertHeld();
    return !writes_.empty() || stopping_;
  };
  while (true) {
    std::deque<StoreWrite> batch;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&work));
      if (writes_.empty()) return;
      while (!writes_.empty() && batch.size() < kMaxBatch) {
        batch.push_back(std::move(writes_.front()));
        writes_.pop_front();
      }
    }
    committer_->Commit(batch);
    absl::MutexLock lock(&mu_);
    pending_ -= static_cast<int64_t>(batch.size());
  }
}

void SqliteFile::RunReader(SqliteJobTables& tables) {
  const auto work = [this] {
    mu_.AssertHeld();
    return !reads_.empty() || stopping_;
  };
  while (true) {
    ReadTask read;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&work));
      if (reads_.empty()) return;
      read = std::move(reads_.front());
      reads_.pop_front();
    }
    read(tables);
    absl::MutexLock lock(&mu_);
    pending_ -= 1;
  }
}

void SqliteFile::Flush() {
  const auto idle = [this] {
    mu_.AssertHeld();
    return pending_ == 0;
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&idle));
}

}  // namespace kinora

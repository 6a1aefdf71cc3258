#include "server/frontend/jobs/sqlite_store_rows.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"
#include "server/frontend/jobs/commit_mark.h"
#include "server/frontend/jobs/frontend_tables.h"
#include "server/frontend/jobs/job_rows.h"
#include "server/frontend/jobs/job_schema.h"
#include "server/frontend/jobs/lost_commits.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

std::string CopyOf(const std::string& path) { return absl::StrCat(path, ".copy"); }

absl::Status Sync(const std::string& path, int flags) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  return file.ok() && fsync(file.get()) == 0 ? absl::OkStatus() : FileError(path, "sync");
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStoreRows>> SqliteStoreRows::Open(const std::string& path,
                                                                       int64_t accept_lost_commits) {
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat(path, ": there is no such store"));
  const CommitMarkFile mark(absl::StrCat(path, ".commits"));
  KINORA_RETURN_IF_ERROR(CheckCommits(path, mark.Read(), accept_lost_commits).status());
  KINORA_ASSIGN_OR_RETURN(auto tables, SqliteJobTables::Open(path));
  KINORA_RETURN_IF_ERROR(CheckIntegrity(tables->database()));
  return std::unique_ptr<SqliteStoreRows>(new SqliteStoreRows(path, std::move(tables)));
}

absl::StatusOr<std::unique_ptr<SqliteStoreRows>> SqliteStoreRows::Create(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) {
    KINORA_ASSIGN_OR_RETURN(const auto present, Open(path, /*accept_lost_commits=*/0));
    KINORA_ASSIGN_OR_RETURN(const int64_t jobs, present->Count("SELECT count(*) FROM jobs"));
    if (jobs > 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " has ", jobs, " jobs; move it and its companions away, or choose another state_directory"));
    }
  }
  KINORA_ASSIGN_OR_RETURN(auto tables, SqliteJobTables::Open(CopyOf(path)));
  return std::unique_ptr<SqliteStoreRows>(new SqliteStoreRows(path, std::move(tables)));
}

absl::StatusOr<int64_t> SqliteStoreRows::Count(const char* sql) {
  KINORA_ASSIGN_OR_RETURN(Statement select, database().Prepare(sql));
  KINORA_RETURN_IF_ERROR(select.Row().status());
  return select.Int(0);
}

absl::StatusOr<std::vector<JobRow>> SqliteStoreRows::JobsAfter(int64_t ordinal, int limit) {
  KINORA_ASSIGN_OR_RETURN(
      Statement select,
      database().Prepare("SELECT ordinal, id, state, hidden, expire_micros, coalesce(request_id, ''), fingerprint, "
                         "video, scheduling, detach, owner, lease_micros, queued_micros, cancel_requested, "
                         "lost_groups, last_sequence, "
                         "coalesce((SELECT frontend FROM ties WHERE job = id AND checksum = record_checksum(job, "
                         "frontend)), ''), " KINORA_JOB_IS_SOUND
                         " FROM jobs WHERE ordinal > ? ORDER BY ordinal LIMIT ?"));
  select.Bind(ordinal).Bind(int64_t{limit});
  std::vector<JobRow> jobs;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) break;
    if (select.Int(17) == 0) return Damaged(select.Bytes(1));
    JobRow& job = jobs.emplace_back(JobRow{.ordinal = select.Int(0), .id = select.Bytes(1), .state = select.Int(2)});
    job.hidden = select.Int(3);
    job.expire_micros = select.Int(4);
    job.request_id = select.Bytes(5);
    job.fingerprint = select.Bytes(6);
    job.video = select.Bytes(7);
    job.scheduling = select.Bytes(8);
    job.detach = select.Int(9);
    job.owner = select.Bytes(10);
    job.lease_micros = select.Int(11);
    job.queued_micros = select.Int(12);
    job.cancel_requested = select.Int(13);
    job.lost_groups = select.Int(14);
    job.last_sequence = select.Int(15);
    job.tied_to = select.Bytes(16);
  }
  for (JobRow& job : jobs) KINORA_RETURN_IF_ERROR(ReadEvents(job));
  return jobs;
}

absl::Status SqliteStoreRows::ReadEvents(JobRow& job) {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database().Prepare("SELECT sequence, event, checksum = record_checksum(job, sequence, event) "
                                             "FROM events WHERE job = ? ORDER BY sequence"));
  select.Bind(job.id);
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return absl::OkStatus();
    if (select.Int(2) == 0) return Damaged(job.id);
    job.events.push_back({.sequence = select.Int(0), .event = select.Bytes(1)});
  }
}

// Damaged rows are left out: a worker, or a client, brings them again.
absl::StatusOr<OtherRows> SqliteStoreRows::Others() {
  OtherRows others;
  // The first column says whether the row is sound.
  const auto read = [&](const char* sql, auto take) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(Statement select, database().Prepare(sql));
    while (true) {
      KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
      if (!row) return absl::OkStatus();
      if (select.Int(0) != 0) {
        take(select);
      } else {
        Log(Severity::kWarning, "row_not_copied", {{"key", absl::CHexEscape(select.Bytes(1))}});
      }
    }
  };
  KINORA_RETURN_IF_ERROR(read("SELECT 1, id, micros FROM expired ORDER BY id", [&](const Statement& row) {
    others.expired.push_back({.id = row.Bytes(1), .micros = row.Int(2)});
  }));
  KINORA_RETURN_IF_ERROR(
      read("SELECT checksum = record_checksum(id, info), id, info FROM models ORDER BY id",
           [&](const Statement& row) { others.models.push_back({.id = row.Bytes(1), .info = row.Bytes(2)}); }));
  KINORA_RETURN_IF_ERROR(
      read("SELECT checksum = record_checksum(place, run), place, run FROM speeds ORDER BY ordinal",
           [&](const Statement& row) { others.speeds.push_back({.place = row.Bytes(1), .run = row.Bytes(2)}); }));
  KINORA_RETURN_IF_ERROR(
      read("SELECT checksum = record_checksum(sha256, bytes, media_type, expire_micros), sha256, bytes, media_type, "
           "expire_micros FROM inputs ORDER BY sha256",
           [&](const Statement& row) {
             others.inputs.push_back({.sha256 = row.Bytes(1), .bytes = row.Int(2), .media_type = row.Bytes(3)});
             others.inputs.back().expire_micros = row.Int(4);
           }));
  return others;
}

absl::StatusOr<int64_t> SqliteStoreRows::BeginCopy() { return Count("SELECT coalesce(max(ordinal), 0) FROM jobs"); }

template <typename Put>
absl::Status SqliteStoreRows::InTransaction(Put put) {
  KINORA_RETURN_IF_ERROR(database().Execute("BEGIN IMMEDIATE"));
  absl::Status status = put();
  if (status.ok()) status = database().Execute("COMMIT");
  if (!status.ok() && database().in_transaction()) (void)database().Execute("ROLLBACK");
  return status;
}

absl::Status SqliteStoreRows::PutJobs(const std::vector<JobRow>& jobs) {
  return InTransaction([&]() -> absl::Status {
    for (const JobRow& job : jobs) KINORA_RETURN_IF_ERROR(PutJob(job));
    return absl::OkStatus();
  });
}

absl::Status SqliteStoreRows::PutJob(const JobRow& job) {
  KINORA_ASSIGN_OR_RETURN(
      Statement insert,
      database().Prepare("INSERT INTO jobs (ordinal, id, state, hidden, expire_micros, request_id, fingerprint, video, "
                         "scheduling, detach, owner, lease_micros, queued_micros, cancel_requested, lost_groups, "
                         "last_sequence) VALUES (?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(job.ordinal).Bind(job.id).Bind(job.state).Bind(job.hidden).Bind(job.expire_micros).Bind(job.request_id);
  insert.Bind(job.fingerprint).BindBlob(job.video).BindBlob(job.scheduling).Bind(job.detach).Bind(job.owner);
  insert.Bind(job.lease_micros).Bind(job.queued_micros).Bind(job.cancel_requested).Bind(job.lost_groups);
  KINORA_RETURN_IF_ERROR(insert.Bind(job.last_sequence).Run());
  KINORA_RETURN_IF_ERROR(tables_->Seal(job.id));
  if (!job.tied_to.empty()) KINORA_RETURN_IF_ERROR(FrontendTables(database()).Tie(job.id, job.tied_to));
  for (const JobRow::Event& event : job.events) {
    KINORA_RETURN_IF_ERROR(tables_->AddEvent(job.id, event.sequence, event.event));
  }
  return absl::OkStatus();
}

absl::Status SqliteStoreRows::PutOthers(const OtherRows& others) {
  return InTransaction([&]() -> absl::Status {
    KINORA_RETURN_IF_ERROR(
        database().Execute("DELETE FROM expired; DELETE FROM models; DELETE FROM speeds; DELETE FROM inputs"));
    for (const auto& row : others.expired) {
      KINORA_ASSIGN_OR_RETURN(Statement insert, database().Prepare("INSERT INTO expired (id, micros) VALUES (?, ?)"));
      KINORA_RETURN_IF_ERROR(insert.Bind(row.id).Bind(row.micros).Run());
    }
    for (const auto& row : others.models) {
      KINORA_ASSIGN_OR_RETURN(Statement insert, database().Prepare("INSERT INTO models (id, info, checksum) VALUES "
                                                                   "(?1, ?2, record_checksum(?1, ?2))"));
      KINORA_RETURN_IF_ERROR(insert.Bind(row.id).BindBlob(row.info).Run());
    }
    for (const auto& row : others.speeds) {
      KINORA_ASSIGN_OR_RETURN(Statement insert, database().Prepare("INSERT INTO speeds (place, run, checksum) VALUES "
                                                                   "(?1, ?2, record_checksum(?1, ?2))"));
      KINORA_RETURN_IF_ERROR(insert.Bind(row.place).BindBlob(row.run).Run());
    }
    for (const auto& row : others.inputs) {
      KINORA_ASSIGN_OR_RETURN(
          Statement insert,
          database().Prepare("INSERT INTO inputs (sha256, bytes, media_type, expire_micros, checksum) VALUES "
                             "(?1, ?2, ?3, ?4, record_checksum(?1, ?2, ?3, ?4))"));
      insert.Bind(row.sha256).Bind(row.bytes).Bind(row.media_type).Bind(row.expire_micros);
      KINORA_RETURN_IF_ERROR(insert.Run());
    }
    return absl::OkStatus();
  });
}

// The log is moved into the file first, since only the file is renamed.
absl::Status SqliteStoreRows::EndCopy() {
  KINORA_RETURN_IF_ERROR(database().Execute("PRAGMA wal_checkpoint(TRUNCATE)"));
  tables_.reset();
  KINORA_RETURN_IF_ERROR(Sync(CopyOf(path_), 0));
  for (const char* suffix : {"-wal", "-shm", ".commits"}) unlink(absl::StrCat(path_, suffix).c_str());
  if (rename(CopyOf(path_).c_str(), path_.c_str()) != 0) return FileError(CopyOf(path_), "rename");
  return Sync(fs::path(path_).parent_path().string(), O_DIRECTORY);
}

}  // namespace kinora

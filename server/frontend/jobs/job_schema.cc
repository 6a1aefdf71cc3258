#include "server/frontend/jobs/job_schema.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr int64_t kApplicationId = 0x4b494e4f;  // "KINO"

// Step i upgrades version i to i + 1; version 0 is an empty file. `ordinal` is an order of creation. Times are
// microseconds since 1970. hidden: 0 no, 1 deleted, 2 expired.
// cancel_requested: 0 no, 1 yes, 2 yes, and the job is deleted when it ends.
constexpr std::array<const char*, kSchemaVersion> kSteps = {
    R"sql(
CREATE TABLE jobs (
  ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  hidden INTEGER NOT NULL DEFAULT 0,
  expire_micros INTEGER NOT NULL,
  request_id TEXT UNIQUE,
  fingerprint TEXT NOT NULL,
  video BLOB NOT NULL,
  scheduling BLOB NOT NULL,
  detach INTEGER NOT NULL,
  owner TEXT NOT NULL,
  lease_micros INTEGER NOT NULL,
  queued_micros INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL,
  lost_groups INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL);
CREATE INDEX jobs_unfinished ON jobs (ordinal) WHERE state < 4;
CREATE INDEX jobs_expiry ON jobs (expire_micros) WHERE hidden = 0;
CREATE INDEX jobs_hidden ON jobs (hidden) WHERE hidden > 0;
CREATE TABLE events (
  job TEXT NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL, PRIMARY KEY (job, sequence)) WITHOUT ROWID;
CREATE TABLE expired (id TEXT PRIMARY KEY, micros INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE models (id TEXT PRIMARY KEY, info BLOB NOT NULL) WITHOUT ROWID;
)sql",
    // Run times (kinora.v1.RunSpeed) by place: model, precision, mesh and device.
    R"sql(
CREATE TABLE speeds (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT NOT NULL, run BLOB NOT NULL);
CREATE INDEX speeds_of_place ON speeds (place, ordinal);
)sql",
    // Uploaded inputs. media_type '': incomplete.
    R"sql(
CREATE TABLE inputs (
  sha256 TEXT PRIMARY KEY, bytes INTEGER NOT NULL, media_type TEXT NOT NULL, expire_micros INTEGER NOT NULL)
  WITHOUT ROWID;
)sql",
    // Adds a checksum to each record (record_checksum, sqlite.h). commits: one row, see commit_mark.h.
    R"sql(
ALTER TABLE jobs ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET checksum = record_checksum(id, state, hidden, expire_micros, request_id, fingerprint, video, scheduling,
  detach, owner, lease_micros, queued_micros, cancel_requested, lost_groups, last_sequence);
ALTER TABLE events ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE events SET checksum = record_checksum(job, sequence, event);
ALTER TABLE models ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE models SET checksum = record_checksum(id, info);
ALTER TABLE speeds ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE speeds SET checksum = record_checksum(place, run);
ALTER TABLE inputs ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE inputs SET checksum = record_checksum(sha256, bytes, media_type, expire_micros);
CREATE TABLE commits (store TEXT NOT NULL, number INTEGER NOT NULL);
INSERT INTO commits (store, number) VALUES (lower(hex(randomblob(8))), 0);
)sql",
    // Frontends, and which of them holds the client of an unfinished job that ends with it. Before, the only frontend
    // was called "embedded".
    R"sql(
CREATE TABLE frontends (
  id TEXT PRIMARY KEY, address TEXT NOT NULL, lease_micros INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE ties (job TEXT PRIMARY KEY, frontend TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO ties (job, frontend, checksum)
  SELECT id, 'embedded', record_checksum(id, 'embedded') FROM jobs WHERE state < 4 AND hidden = 0 AND detach = 0;
CREATE INDEX jobs_leased ON jobs (ordinal) WHERE owner <> '';
)sql"};

struct Header {
  int64_t application = 0, version = 0, tables = 0;
  bool empty() const { return version == 0 && tables == 0; }
};

absl::StatusOr<int64_t> AskNumber(Database& database, const char* sql) {
  KINORA_ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  KINORA_RETURN_IF_ERROR(statement.Row().status());
  return statement.Int(0);
}

// Sets `found` to the first problem that the check reports; empty if there is none.
absl::Status RunCheck(Database& database, const char* sql, std::string& found) {
  KINORA_ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  KINORA_ASSIGN_OR_RETURN(const bool row, statement.Row());
  found = row ? statement.Bytes(0) : "no answer";
  if (found == "ok") found.clear();
  return absl::OkStatus();
}

absl::StatusOr<Header> ReadHeader(Database& database) {
  Header header;
  KINORA_ASSIGN_OR_RETURN(header.application, AskNumber(database, "PRAGMA application_id"));
  KINORA_ASSIGN_OR_RETURN(header.version, AskNumber(database, "PRAGMA user_version"));
  KINORA_ASSIGN_OR_RETURN(header.tables, AskNumber(database, "SELECT count(*) FROM sqlite_schema"));
  return header;
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string CopyPath(const std::string& path, int64_t version) { return absl::StrCat(path, ".v", version); }

absl::Status CheckOurs(const Header& header, const std::string& path) {
  const std::string name = FileName(path);
  if (header.empty()) return absl::OkStatus();
  if (header.application != kApplicationId) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": belongs to another program; choose another state_directory"));
  }
  if (header.version < 1) {
    return absl::DataLossError(absl::StrCat(name, ": has schema ", header.version,
                                            ", which no version writes; restore the file from a backup"));
  }
  if (header.version <= kSchemaVersion) return absl::OkStatus();
  const std::string copy = CopyPath(path, kSchemaVersion);
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": written by a newer version (schema ", header.version, "; this version reads up to ",
                   kSchemaVersion, "); start the newer version again, ",
                   std::filesystem::exists(copy)
                       ? absl::StrCat("or replace it with ", FileName(copy), ", the copy made before the upgrade, ")
                       : "",
                   "or choose another state_directory"));
}

absl::Status Sync(const std::string& path, int flags) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  return file.ok() && fsync(file.get()) == 0 ? absl::OkStatus() : FileError(FileName(path), "sync");
}

// Copies the committed data of `path`. The caller holds a write transaction, so nothing is committed meanwhile. The
// copy uses another connection, because SQLite cannot VACUUM inside a transaction.
absl::Status Copy(const std::string& path, int64_t version) {
  const std::string copy = CopyPath(path, version), part = copy + ".part";
  const absl::Cleanup remove_part = [&part] { unlink(part.c_str()); };  // has no effect after the rename
  {
    // SQLite keeps the mode of an existing empty file; a file that it created would be readable by all.
    const FileDescriptor empty(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!empty.ok()) return FileError(FileName(part), "create");
  }
  {
    KINORA_ASSIGN_OR_RETURN(const auto reader, Database::Open(path));
    KINORA_ASSIGN_OR_RETURN(Statement vacuum, reader->Prepare("VACUUM INTO ?"));
    KINORA_RETURN_IF_ERROR(vacuum.Bind(part).Run());
  }
  KINORA_RETURN_IF_ERROR(Sync(part, 0));
  if (rename(part.c_str(), copy.c_str()) != 0) return FileError(FileName(part), "rename");
  return Sync(std::filesystem::path(path).parent_path().string(), O_DIRECTORY);
}

// Call inside a transaction.
absl::Status TakeSteps(Database& database, const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const Header header, ReadHeader(database));  // another process may have upgraded it meanwhile
  KINORA_RETURN_IF_ERROR(CheckOurs(header, path));
  if (header.version == kSchemaVersion) return absl::OkStatus();
  if (!header.empty()) KINORA_RETURN_IF_ERROR(Copy(path, header.version));
  for (int64_t version = header.version; version < kSchemaVersion; ++version) {
    KINORA_RETURN_IF_ERROR(database.Execute(kSteps[version]));
  }
  return database.Execute(
      absl::StrCat("PRAGMA application_id = ", kApplicationId, "; PRAGMA user_version = ", kSchemaVersion).c_str());
}

// Adds advice for the operator to a full-disk error.
absl::Status FullDiskAdvice(const absl::Status& status, const std::string& path, int64_t version) {
  if (!absl::IsResourceExhausted(status)) return status;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return WithErrorInfo(absl::ResourceExhaustedError(absl::StrCat(
                           FileName(path), " keeps schema ", version, " and cannot be upgraded to ", kSchemaVersion,
                           ": ", std::string(status.message()), "; free space for a copy and the change (",
                           error ? 1 : (3 * bytes >> 20) + 1, " MiB), then start again")),
                       "DISK_FULL");
}

}  // namespace

absl::StatusOr<bool> HasCommitNumber(Database& database) {
  constexpr int64_t kFirst = 4;
  KINORA_ASSIGN_OR_RETURN(const Header header, ReadHeader(database));
  return header.application == kApplicationId && header.version >= kFirst && header.version <= kSchemaVersion;
}

absl::StatusOr<CommitMark> ReadLastCommit(Database& database) {
  KINORA_ASSIGN_OR_RETURN(Statement select, database.Prepare("SELECT store, number FROM commits"));
  KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
  constexpr int kCorrupt = 11;  // SQLITE_CORRUPT, so that Error adds its advice
  if (!row) return database.Error(kCorrupt);
  return CommitMark{.store = select.Bytes(0), .number = select.Int(1)};
}

absl::Status WriteCommitNumber(Database& database, int64_t number) {
  KINORA_ASSIGN_OR_RETURN(Statement update, database.Prepare("UPDATE commits SET number = ?"));
  return update.Bind(number).Run();
}

absl::Status CheckIntegrity(Database& database) {
  KINORA_RETURN_IF_ERROR(database.Execute("PRAGMA wal_checkpoint(TRUNCATE)"));  // so that the check covers the log, too
  constexpr int kCorrupt = 11;  // SQLITE_CORRUPT, so that Error adds its advice
  const auto damaged = [&](const std::string& why) {
    return absl::DataLossError(absl::StrCat(database.Error(kCorrupt).message(), " (", why, ")"));
  };
  std::string found;
  KINORA_RETURN_IF_ERROR(RunCheck(database, "PRAGMA quick_check(1)", found));
  if (!found.empty()) return damaged(found);
  KINORA_RETURN_IF_ERROR(RunCheck(database, "PRAGMA integrity_check(1)", found));
  if (found.empty()) return absl::OkStatus();
  // An index can be rebuilt from its table, whose records have checksums.
  Log(Severity::kWarning, "job_index_rebuilt", {{"why", found}});
  KINORA_RETURN_IF_ERROR(database.Execute("REINDEX"));
  KINORA_RETURN_IF_ERROR(RunCheck(database, "PRAGMA integrity_check(1)", found));
  return found.empty() ? absl::OkStatus() : damaged(found);
}

absl::Status BringSchemaUpToDate(Database& database, const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const Header header, ReadHeader(database));
  KINORA_RETURN_IF_ERROR(CheckOurs(header, path));
  const bool older = !header.empty() && header.version < kSchemaVersion;
  const auto advised = [&](const absl::Status& failure) {
    return older ? FullDiskAdvice(failure, path, header.version) : failure;
  };
  // WAL: readers continue while the writer writes. FULL: a commit is durable when it returns.
  absl::Status status = database.Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;");
  if (older && status.ok()) status = CheckIntegrity(database);
  if (!status.ok()) return advised(status);
  // Starts a transaction even if there is nothing to do, to find out now whether the file is writable.
  KINORA_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  status = TakeSteps(database, path);
  if (status.ok()) status = database.Execute("COMMIT");
  if (!status.ok()) {
    if (database.in_transaction()) (void)database.Execute("ROLLBACK");
    return advised(status);
  }
  if (older) {
    Log(Severity::kInfo, "job_store_migrated",
        {{"from", header.version}, {"to", kSchemaVersion}, {"copy", FileName(CopyPath(path, header.version))}});
  }
  return absl::OkStatus();
}

}  // namespace kinora

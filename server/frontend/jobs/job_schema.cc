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

// Step i takes a file from version i to i + 1; version 0 is the empty file.
// `ordinal` is an order of creation. Times are microseconds since 1970. hidden: 0 no, 1 deleted, 2 expired.
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
    // What runs took (kinora.v1.RunSpeed), by what they ran on: model, precision, mesh and device.
    R"sql(
CREATE TABLE speeds (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT NOT NULL, run BLOB NOT NULL);
CREATE INDEX speeds_of_place ON speeds (place, ordinal);
)sql",
    // What clients uploaded. media_type '': not whole yet.
    R"sql(
CREATE TABLE inputs (
  sha256 TEXT PRIMARY KEY, bytes INTEGER NOT NULL, media_type TEXT NOT NULL, expire_micros INTEGER NOT NULL)
  WITHOUT ROWID;
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
        absl::StrCat(name, ": a database of another program; choose another state_directory"));
  }
  if (header.version < 1) {
    return absl::DataLossError(absl::StrCat(name, ": it says schema ", header.version,
                                            ", which no version wrote; restore the file from a backup"));
  }
  if (header.version <= kSchemaVersion) return absl::OkStatus();
  const std::string copy = CopyPath(path, kSchemaVersion);
  return absl::FailedPreconditionError(absl::StrCat(
      name, ": a newer version wrote it (schema ", header.version, ", this one reads up to ", kSchemaVersion,
      "); start that version again, ",
      std::filesystem::exists(copy) ? absl::StrCat("or put ", FileName(copy), ", the copy made before, in its place, ")
                                    : "",
      "or choose another state_directory"));
}

absl::Status Sync(const std::string& path, int flags) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  return file.ok() && fsync(file.get()) == 0 ? absl::OkStatus() : FileError(FileName(path), "sync");
}

// Writes what is committed in `path` to its copy. The caller holds a write transaction, so nothing is committed
// meanwhile; a connection of its own does the reading, because SQLite copies no database inside a transaction.
absl::Status Copy(const std::string& path, int64_t version) {
  const std::string copy = CopyPath(path, version), part = copy + ".part";
  const absl::Cleanup remove_part = [&part] { unlink(part.c_str()); };  // not there any more after the rename
  {
    // SQLite takes an empty file as it is, and would make one that everybody may read.
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

// Inside a transaction.
absl::Status TakeSteps(Database& database, const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const Header header, ReadHeader(database));  // another process may have been here meanwhile
  KINORA_RETURN_IF_ERROR(CheckOurs(header, path));
  if (header.version == kSchemaVersion) return absl::OkStatus();
  if (!header.empty()) KINORA_RETURN_IF_ERROR(Copy(path, header.version));
  for (int64_t version = header.version; version < kSchemaVersion; ++version) {
    KINORA_RETURN_IF_ERROR(database.Execute(kSteps[version]));
  }
  return database.Execute(
      absl::StrCat("PRAGMA application_id = ", kApplicationId, "; PRAGMA user_version = ", kSchemaVersion).c_str());
}

// A full disk, told to whoever starts the frontend.
absl::Status FullDiskAdvice(const absl::Status& status, const std::string& path, int64_t version) {
  if (!absl::IsResourceExhausted(status)) return status;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return WithErrorInfo(
      absl::ResourceExhaustedError(
          absl::StrCat(FileName(path), " stays as it is, with schema ", version, ", and cannot be taken to ",
                       kSchemaVersion, ": ", std::string(status.message()), "; make room for a copy and the change (",
                       error ? 1 : (2 * bytes >> 20) + 1, " MiB), then start again")),
      "DISK_FULL");
}

}  // namespace

absl::Status RewriteSchemaVersion(Database& database) {
  return database.Execute(absl::StrCat("PRAGMA user_version = ", kSchemaVersion).c_str());
}

absl::Status CheckIntegrity(Database& database) {
  KINORA_RETURN_IF_ERROR(database.Execute("PRAGMA wal_checkpoint(TRUNCATE)"));  // so that the file is all there is
  constexpr int kCorrupt = 11;  // SQLITE_CORRUPT, for the advice of Error
  KINORA_ASSIGN_OR_RETURN(Statement check, database.Prepare("PRAGMA quick_check(1)"));
  KINORA_ASSIGN_OR_RETURN(const bool row, check.Row());
  const std::string result = row ? check.Bytes(0) : "no answer";
  if (result != "ok") return absl::DataLossError(absl::StrCat(database.Error(kCorrupt).message(), " (", result, ")"));
  return absl::OkStatus();
}

absl::Status BringSchemaUpToDate(Database& database, const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const Header header, ReadHeader(database));
  KINORA_RETURN_IF_ERROR(CheckOurs(header, path));
  const bool older = !header.empty() && header.version < kSchemaVersion;
  const auto advised = [&](const absl::Status& failure) {
    return older ? FullDiskAdvice(failure, path, header.version) : failure;
  };
  // WAL: readers go on while the writer writes. FULL: a commit is on the disk when it returns.
  absl::Status status = database.Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;");
  if (older && status.ok()) status = CheckIntegrity(database);
  if (!status.ok()) return advised(status);
  // A transaction also where there is nothing to do: it finds out now whether the file can be written at all.
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

#include "server/frontend/jobs/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "server/common/file_error.h"
#include "server/common/status_details.h"

namespace kinora {

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      bound_(other.bound_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Statement& Statement::Bind(int64_t value) {
  bind_error_ |= sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}

Statement& Statement::Bind(std::string_view text) {
  bind_error_ |= sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::BindBlob(std::string_view bytes) {
  // A null pointer would bind NULL instead of an empty blob.
  bind_error_ |= sqlite3_bind_blob(statement_, ++bound_, bytes.empty() ? "" : bytes.data(),
                                   static_cast<int>(bytes.size()), SQLITE_TRANSIENT);
  return *this;
}

absl::StatusOr<bool> Statement::Row() {
  if (bind_error_ != SQLITE_OK) return database_->Error(bind_error_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Error(code);
}

absl::Status Statement::Run() { return Row().status(); }

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Statement::Bytes(int column) const {
  const char* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return data == nullptr ? std::string() : std::string(data, sqlite3_column_bytes(statement_, column));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  if (path != ":memory:") {  // SQLite would create it readable by all
    // Only one that is not there: to close any descriptor of a file is to give up all locks that this process has on
    // it, those of its other connections too, and the next process to read it would remove their log.
    const FileDescriptor created(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  }
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> database(new Database(path.substr(path.rfind('/') + 1), handle));
  if (code != SQLITE_OK) return database->Error(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 2000);  // ms; another process is only there by mistake (a shell, a backup)
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : prepared_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<Statement> Database::Prepare(const char* sql) {
  sqlite3_stmt*& statement = prepared_[sql];
  if (statement == nullptr) {
    const int code = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return Error(code);
  }
  return Statement(this, statement);
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

absl::Status Database::Error(int code) const {
  // The handle's text is of its last call, which need not be the one that `code` is of.
  const bool of_last_call = handle_ != nullptr && (sqlite3_errcode(handle_) & 0xff) == (code & 0xff);
  // The file that connections share beside a log can be what a full disk has no room for.
  const bool full = (code & 0xff) == SQLITE_IOERR && of_last_call && sqlite3_system_errno(handle_) == ENOSPC;
  if (full) code = SQLITE_FULL;
  const std::string message =
      absl::StrCat(name_, ": ", of_last_call && !full ? sqlite3_errmsg(handle_) : sqlite3_errstr(code));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return WithErrorInfo(WithRetryInfo(absl::ResourceExhaustedError(message), absl::Minutes(1)), "DISK_FULL");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(
          message, "; restore the file from a backup, or move it and its -wal and -shm files away to start empty"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(absl::StrCat(message, "; another process holds the file"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return OfFile(
          name_, absl::PermissionDeniedError(absl::StrCat(message, "; the file and its directory must be writable")));
    case SQLITE_IOERR:
      return OfFile(name_, absl::UnavailableError(absl::StrCat(message, " (", sqlite3_errstr(code), ")")));
    default:
      return absl::InternalError(message);
  }
}

}  // namespace kinora

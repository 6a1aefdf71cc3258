#include "server/frontend/jobs/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

void RecordChecksum(sqlite3_context* context, int count, sqlite3_value** values) {
  Sha256 sha256;
  for (int i = 0; i < count; ++i) {
    const int type = sqlite3_value_type(values[i]);
    const bool number = type == SQLITE_INTEGER;
    const int64_t integer = number ? sqlite3_value_int64(values[i]) : 0;
    const void* bytes = number ? &integer : sqlite3_value_blob(values[i]);  // null for NULL or an empty value
    const int32_t head[2] = {type, number ? static_cast<int>(sizeof(integer)) : sqlite3_value_bytes(values[i])};
    sha256.Update({reinterpret_cast<const char*>(head), sizeof(head)});
    if (bytes != nullptr) sha256.Update({static_cast<const char*>(bytes), static_cast<size_t>(head[1])});
  }
  constexpr size_t kDigits = 16;  // hexadecimal, for 8 bytes
  const std::string digits = sha256.Hex().substr(0, kDigits);
  sqlite3_result_int64(context, static_cast<int64_t>(std::strtoull(digits.c_str(), nullptr, 16)));
}

}  // namespace

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
  // A null pointer would bind NULL, not an empty blob.
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

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, AtClose at_close) {
  if (path != ":memory:") {  // SQLite would create the file readable by all
    // Opens only a missing file: closing any descriptor of a file releases all POSIX locks of this process on it, also
    // those of its other connections, and the next process to open the file would then remove their log.
    const FileDescriptor created(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  }
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> database(new Database(path.substr(path.rfind('/') + 1), handle));
  if (code != SQLITE_OK) return database->Error(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, at_close == AtClose::kLeaveLog ? 1 : 0, nullptr);
  sqlite3_create_function_v2(handle, "record_checksum", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
                             nullptr, RecordChecksum, nullptr, nullptr, nullptr);
  sqlite3_busy_timeout(handle, 2000);  // ms; another process uses the file only by mistake (a shell, a backup)
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

int64_t Database::changes() const { return sqlite3_total_changes64(handle_); }

absl::Status Database::Error(int code) const {
  // The handle's message belongs to its last call, which may not be the one that returned `code`.
  const bool of_last_call = handle_ != nullptr && (sqlite3_errcode(handle_) & 0xff) == (code & 0xff);
  // On a full disk SQLite may report an I/O error for the shared-memory file beside the log.
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
          message,
          "; restore the file from a backup, or move it and its -wal, -shm and .commits files away to start empty"));
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

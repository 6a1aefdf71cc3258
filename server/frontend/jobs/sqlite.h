// A thin wrapper of SQLite's handles with errors as Status: ResourceExhausted (disk full), Unavailable (locked by
// another process, I/O), DataLoss (damaged, or not a database), PermissionDenied (read-only). Each names the file
// without its folder, because clients see them. One thread at a time may use a Database and its Statements.
//
// SQL may call record_checksum(value, ...), which returns the first 8 bytes of the SHA-256 of its arguments, each with
// its type and length, as an integer.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

struct sqlite3;
struct sqlite3_stmt;

namespace kinora {

class Database;

class Statement {  // Bind calls bind parameters 1, 2, …; reset when destroyed
 public:
  ~Statement();
  Statement(const Statement&) = delete;
  Statement(Statement&& other) noexcept;

  Statement& Bind(int64_t value);
  Statement& Bind(std::string_view text);
  Statement& BindBlob(std::string_view bytes);

  absl::StatusOr<bool> Row();  // true if there is a row to read
  absl::Status Run();          // runs a statement without rows

  int64_t Int(int column) const;
  std::string Bytes(int column) const;  // text or blob

 private:
  friend class Database;
  Statement(Database* database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}
  Database* database_;
  sqlite3_stmt* statement_;
  int bound_ = 0;
  int bind_error_ = 0;
};

enum class AtClose { kCheckpoint, kLeaveLog };

class Database {
 public:
  // Creates the file if it is missing (mode 0600). `path` ":memory:" lives as long as the object. kLeaveLog: closing
  // neither checkpoints nor removes the log, even if no other connection is open.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        AtClose at_close = AtClose::kCheckpoint);
  ~Database();

  absl::Status Execute(const char* sql);  // one or more statements without parameters
  // Statements are cached by the pointer `sql`, which must be a literal. One Statement of each `sql` at a time.
  absl::StatusOr<Statement> Prepare(const char* sql);
  bool in_transaction() const;
  int64_t changes() const;             // rows written by this connection so far, including rolled back ones
  absl::Status Error(int code) const;  // with the message of the last call, if it failed with `code`

 private:
  Database(std::string name, sqlite3* handle) : name_(std::move(name)), handle_(handle) {}
  const std::string name_;  // file name
  sqlite3* const handle_;
  std::unordered_map<const char*, sqlite3_stmt*> prepared_;
};

// Parses a row of (bytes, whether the checksum matches).
template <typename Message>
absl::StatusOr<Message> ParseRow(const Statement& row, const char* what) {
  Message message;
  if (row.Int(1) != 0 && message.ParseFromString(row.Bytes(0))) return message;
  return absl::DataLossError(absl::StrCat("jobs.db: a damaged ", what));
}

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_H_

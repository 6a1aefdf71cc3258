// A thin owner of SQLite's handles with errors as Status: ResourceExhausted (disk full), Unavailable (locked by another
// process, I/O), DataLoss (damaged, or not a database), PermissionDenied (read-only). Each names the file, without its
// folder: clients see these. One thread at a time uses a Database and its Statements.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace kinora {

class Database;

class Statement {  // bound from 1 in the order of the calls; reset when it leaves scope
 public:
  ~Statement();
  Statement(const Statement&) = delete;
  Statement(Statement&& other) noexcept;

  Statement& Bind(int64_t value);
  Statement& Bind(std::string_view text);
  Statement& BindBlob(std::string_view bytes);

  absl::StatusOr<bool> Row();  // true: a row is there to be read
  absl::Status Run();          // a statement without rows

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

class Database {
 public:
  // Creates the file if it is not there (mode 0600). `path` ":memory:" lives as long as the object.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();

  absl::Status Execute(const char* sql);               // one or more statements without parameters
  absl::StatusOr<Statement> Prepare(const char* sql);  // kept and used again; `sql` is a literal; one at a time of each
  bool in_transaction() const;
  absl::Status Error(int code) const;  // of the last call

 private:
  Database(std::string name, sqlite3* handle) : name_(std::move(name)), handle_(handle) {}
  const std::string name_;  // of the file
  sqlite3* const handle_;
  std::unordered_map<const char*, sqlite3_stmt*> prepared_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_H_

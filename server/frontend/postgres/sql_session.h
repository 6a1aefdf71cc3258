// A connection to a database that is made again when it is lost, and transactions on it that know what has become of
// them.
//
// A transaction whose connection is lost before its COMMIT was sent has done nothing, and is run again. If it is lost
// during COMMIT, the server is asked by the transaction's number whether it was committed (pg_xact_status), and only if
// it was not, it is run again. Blocks; one thread at a time.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_SQL_SESSION_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_SQL_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/frontend/postgres/sql_driver.h"

namespace kinora {

class SqlTransaction {
 public:
  SqlTransaction(SqlConnection& connection, absl::Duration timeout) : connection_(connection), timeout_(timeout) {}

  // Errors: as ToStatus. After one, further statements fail, too, and nothing is committed.
  absl::StatusOr<SqlRows> Run(const char* sql, const SqlValues& values = {});

  // By the database's clock: since the transaction began if it writes, otherwise the present.
  absl::StatusOr<absl::Time> Now();
  bool writes() const { return writes_; }

 private:
  friend class SqlSession;
  SqlConnection& connection_;
  const absl::Duration timeout_;
  bool writes_ = false;
  absl::Time began_ = absl::InfinitePast();
  SqlResult failure_;  // the first
};

// What the sessions of one process know together about their database. Thread-safe.
class SqlHealth {
 public:
  // When the database was away last, and since when it has failed: infinite past and future if it was not.
  absl::Time away_until() const { return absl::FromUnixMicros(away_until_.load()); }
  absl::Duration Unwritable(absl::Time now) const;
  void NoteFailure(absl::Time now);
  void NoteSuccess(absl::Time now);

 private:
  static constexpr int64_t kNever = 0;
  std::atomic<int64_t> away_until_ = kNever, failing_since_ = kNever;  // microseconds since 1970
};

struct SqlSessionOptions {
  const SqlDriver* driver = nullptr;
  std::string url;
  std::string greeting{};                      // statements that prepare a new connection
  absl::Duration timeout = absl::Seconds(10);  // for an answer of the server
  SqlHealth* health = nullptr;                 // not owned
  const absl::Notification* stop = nullptr;    // ends waits; not owned
};

class SqlSession {
 public:
  // May run again, also after it succeeded; then its last run counts.
  using Apply = absl::FunctionRef<absl::Status(SqlTransaction&)>;

  explicit SqlSession(const SqlSessionOptions& options) : options_(options) {}

  // Returns the status of `apply`, or of the transaction. Tries until `deadline`, and at least once. Unavailable with
  // ErrorInfo COMMIT_UNKNOWN: it may have been committed.
  absl::Status Write(Apply apply, absl::Time deadline);
  // Each statement sees what is committed then.
  absl::Status Read(Apply apply, absl::Time deadline);

  // The connection, made if there is none. Unavailable, with the reason.
  absl::StatusOr<SqlConnection*> Connect();
  void Drop() { connection_.reset(); }
  // Waits for a time that grows with `tries`. Returns whether `deadline` leaves time for another try.
  bool Pause(int tries, absl::Time deadline) const;

 private:
  enum class Fate { kDone, kRepeat, kUnknown };
  struct Try {
    Fate fate = Fate::kDone;
    absl::Status status;
    int64_t number = 0;  // of the transaction
  };
  Try TryWrite(Apply apply);
  Try Judge(const SqlTransaction& transaction, const absl::Status& applied, int64_t number);
  // kDone: it was committed; kRepeat: it was not; kUnknown: the server did not say before `deadline`.
  Fate FateOf(int64_t number, absl::Time deadline);
  SqlResult RunScript(const std::string& sql, SqlRows& rows);

  const SqlSessionOptions options_;
  std::unique_ptr<SqlConnection> connection_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_SQL_SESSION_H_

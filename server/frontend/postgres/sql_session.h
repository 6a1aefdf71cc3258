// A connection to a database, which reconnects when it is lost and finds out whether an interrupted transaction was
// committed.
//
// A transaction whose connection is lost before its COMMIT was sent has done nothing, and is run again. Each also
// writes its number into the session's row of the table `sessions`. If the connection is lost during COMMIT, that row
// tells whether it was committed, and only if it was not, it is run again. (pg_xact_status would not do: a server that
// crashes may give the number of a lost transaction to another.) Blocks; one thread at a time.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_SQL_SESSION_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_SQL_SESSION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/common/log_limit.h"
#include "server/frontend/postgres/sql_driver.h"

namespace kinora {

class SqlTransaction {
 public:
  SqlTransaction(SqlConnection& connection, absl::Duration timeout) : connection_(connection), timeout_(timeout) {}

  // Errors: as ToStatus. After one, further statements fail, too, and nothing is committed.
  absl::StatusOr<SqlRows> Run(const std::string& sql, const SqlValues& values = {});

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
  explicit SqlHealth(Clock& steady) : steady_(steady) {}

  Clock& steady() const { return steady_; }
  // Until when the database was away last; infinite past: never.
  absl::Time away_until() const;
  // For how long changes have failed; 0 if the last one succeeded.
  absl::Duration Unwritable() const;
  void NoteConnection(bool made);
  // Notes whether a change was made. Logs when changes begin to fail and when they succeed again, and every minute in
  // between.
  void NoteChange(const absl::Status& status);

 private:
  Clock& steady_;
  mutable absl::Mutex mu_;
  bool away_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time away_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Time failing_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  LogLimit failures_{absl::Minutes(1), steady_};
};

struct SqlSessionOptions {
  const SqlDriver* driver = nullptr;
  std::string url;
  std::string greeting{};                      // statements that prepare a new connection
  absl::Duration timeout = absl::Seconds(10);  // for an answer of the server
  Clock* steady = &Clock::Steady();            // of deadlines
  SqlHealth* health = nullptr;                 // not owned
  const absl::Notification* stop = nullptr;    // ends waits; not owned
};

class SqlSession {
 public:
  // May run again, also after it succeeded; then its last run counts.
  using Apply = absl::FunctionRef<absl::Status(SqlTransaction&)>;

  explicit SqlSession(const SqlSessionOptions& options);

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
  };
  Try TryWrite(Apply apply);
  Try Judge(const SqlTransaction& transaction, const absl::Status& applied);
  absl::Status MakeRow(SqlTransaction& transaction) const;  // of this session; it stays if there is one
  // Asks for the fate of the last transaction. kDone: it was committed; kRepeat: it was not; kUnknown: no answer.
  Fate AskFate();
  SqlResult RunScript(const std::string& sql, SqlRows& rows);

  const SqlSessionOptions options_;
  const std::string id_;  // of the session's row
  int64_t number_ = 0;    // of its last transaction
  bool has_row_ = false;  // made on the present connection
  std::unique_ptr<SqlConnection> connection_;
  absl::Status unreachable_;                    // of the last try to connect
  absl::Time next_try_ = absl::InfinitePast();  // before this, that still holds
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_SQL_SESSION_H_

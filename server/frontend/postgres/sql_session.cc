#include "server/frontend/postgres/sql_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/random_id.h"
#include "server/frontend/postgres/sql_status.h"

namespace kinora {
namespace {

// For the answer to what has become of a transaction: long enough to find another server.
constexpr absl::Duration kFatePatience = absl::Seconds(20);
constexpr absl::Duration kBetweenTries = absl::Milliseconds(50);

SqlConnection::Timeout Millis(absl::Duration duration) {
  return SqlConnection::Timeout(absl::ToInt64Milliseconds(duration));
}

}  // namespace

absl::StatusOr<SqlRows> SqlTransaction::Run(const std::string& sql, const SqlValues& values) {
  SqlRows rows;
  if (!failure_) failure_ = connection_.Run(sql, values, Millis(timeout_), rows);
  if (failure_) return ToStatus(*failure_);
  return rows;
}

absl::StatusOr<absl::Time> SqlTransaction::Now() {
  if (writes_) return began_;
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows, Run("SELECT kinora_now()"));
  return absl::FromUnixMicros(rows.Int(0, 0));
}

absl::Time SqlHealth::away_until() const {
  absl::MutexLock lock(&mu_);
  return away_ ? absl::InfiniteFuture() : away_until_;
}

absl::Duration SqlHealth::Unwritable() const {
  absl::MutexLock lock(&mu_);
  const absl::Time now = steady_.Now();
  return now - std::min(failing_since_, now);
}

void SqlHealth::NoteConnection(bool made) {
  absl::MutexLock lock(&mu_);
  if (made && away_) away_until_ = steady_.Now();
  away_ = !made;
}

void SqlHealth::NoteChange(const absl::Status& status) {
  const bool failed = absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
  absl::Duration failing;
  {
    absl::MutexLock lock(&mu_);
    const absl::Time now = steady_.Now();
    failing = now - std::min(failing_since_, now);
    const bool was_failing = failing_since_ != absl::InfiniteFuture();
    failing_since_ = failed ? std::min(failing_since_, now) : absl::InfiniteFuture();
    if (!failed && !was_failing) return;
  }
  if (!failed) return Log(Severity::kInfo, "job_store_writes_again", {{"seconds", absl::ToInt64Seconds(failing)}});
  const auto not_logged = failures_.Admit();
  if (!not_logged) return;
  Log(Severity::kError, "job_store_commit_failed",
      {{"code", absl::StatusCodeToString(status.code())},
       {"why", std::string(status.message())},
       {"commits", 1 + *not_logged},
       {"seconds", absl::ToInt64Seconds(failing)}});
}

SqlSession::SqlSession(const SqlSessionOptions& options) : options_(options), id_(RandomId()) {}

absl::StatusOr<SqlConnection*> SqlSession::Connect() {
  if (connection_ != nullptr) return connection_.get();
  if (options_.steady->Now() < next_try_)
    return unreachable_;  // so that calls which queue up do not each wait for a timeout
  SqlResult failed = options_.driver->Connect(options_.url, connection_);
  SqlRows rows;
  if (!failed && !options_.greeting.empty()) failed = RunScript(options_.greeting, rows);
  has_row_ = false;
  if (failed) {
    connection_.reset();
    if (options_.health != nullptr) options_.health->NoteConnection(/*made=*/false);
    failed->lost = true;
    unreachable_ = ToStatus(*failed);
    next_try_ = options_.steady->Now() + kBetweenTries;
    return unreachable_;
  }
  if (options_.health != nullptr) options_.health->NoteConnection(/*made=*/true);
  return connection_.get();
}

SqlResult SqlSession::RunScript(const std::string& sql, SqlRows& rows) {
  SqlResult failed = connection_->RunScript(sql, Millis(options_.timeout), rows);
  if (failed && LosesConnection(*failed)) Drop();
  return failed;
}

bool SqlSession::Pause(int tries, absl::Time deadline) const {
  constexpr absl::Duration kFirst = absl::Milliseconds(5), kLongest = absl::Milliseconds(500);
  const absl::Duration pause = std::min(kFirst * (1 << std::min(tries, 10)), kLongest);
  if (options_.steady->Now() + pause >= deadline) return false;
  return options_.stop == nullptr || !options_.stop->WaitForNotificationWithTimeout(pause);
}

absl::Status SqlSession::Write(Apply apply, absl::Time deadline) {
  for (int tries = 0;; ++tries) {
    Try tried = TryWrite(apply);
    if (tried.fate == Fate::kUnknown) {
      tried.fate = AskFate();
      if (tried.fate == Fate::kRepeat) tried.status = absl::UnavailableError("the database rolled the change back");
    }
    if (tried.fate == Fate::kUnknown) {
      return WithErrorInfo(absl::UnavailableError("the database was lost during a commit, and it is not known whether "
                                                  "the change was made; look before you try again"),
                           "COMMIT_UNKNOWN");
    }
    if (tried.fate == Fate::kDone || !Pause(tries, deadline)) return tried.status;
  }
}

SqlSession::Try SqlSession::TryWrite(Apply apply) {
  const absl::StatusOr<SqlConnection*> connection = Connect();
  if (!connection.ok()) return {Fate::kRepeat, connection.status()};
  SqlRows rows;
  // Outside of the transaction, so that its row is there for whoever asks what has become of it.
  if (!has_row_) {
    SqlTransaction before(**connection, options_.timeout);
    if (const absl::Status made = MakeRow(before); !made.ok()) {
      Drop();
      return {Fate::kRepeat, made};
    }
    has_row_ = true;
  }
  const std::string begin =
      absl::StrCat("BEGIN ISOLATION LEVEL READ COMMITTED; UPDATE sessions SET number = ", ++number_,
                   ", micros = kinora_now() WHERE id = '", id_, "'; SELECT kinora_now()");
  if (const SqlResult failed = RunScript(begin, rows)) {
    Drop();  // whatever the reason, a new connection has no transaction
    return {Fate::kRepeat, ToStatus(*failed)};
  }
  SqlTransaction transaction(**connection, options_.timeout);
  transaction.writes_ = true;
  transaction.began_ = absl::FromUnixMicros(rows.Int(0, 0));
  return Judge(transaction, apply(transaction));
}

SqlSession::Try SqlSession::Judge(const SqlTransaction& transaction, const absl::Status& applied) {
  const SqlResult& failure = transaction.failure_;
  if (failure && LosesConnection(*failure)) {
    Drop();
    return {Fate::kRepeat, ToStatus(*failure)};
  }
  SqlRows none;
  if (failure || !applied.ok()) {
    if (RunScript("ROLLBACK", none)) Drop();
    if (failure && MayBeRepeated(*failure)) return {Fate::kRepeat, ToStatus(*failure)};
    return {Fate::kDone, applied.ok() ? ToStatus(*failure) : applied};
  }
  const SqlResult unsure = RunScript("COMMIT", none);
  if (!unsure) return {Fate::kDone, applied};
  const bool refused = connection_ != nullptr;  // the server said so
  if (refused) return {MayBeRepeated(*unsure) ? Fate::kRepeat : Fate::kDone, ToStatus(*unsure)};
  return {Fate::kUnknown, applied};
}

absl::Status SqlSession::MakeRow(SqlTransaction& transaction) const {
  return transaction
      .Run("INSERT INTO sessions VALUES ($1, 0, kinora_now()) ON CONFLICT (id) DO UPDATE SET micros = excluded.micros",
           {id_})
      .status();
}

// Waits for the end of a transaction that the server has not noticed to be abandoned: that holds the row.
SqlSession::Fate SqlSession::AskFate() {
  bool committed = false;
  const absl::Status asked = Read(
      [&](SqlTransaction& transaction) -> absl::Status {
        KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                                transaction.Run("SELECT number FROM sessions WHERE id = $1 FOR UPDATE", {id_}));
        if (rows.size() == 0) return absl::NotFoundError("the session has no row");
        committed = rows.Int(0, 0) == number_;
        return absl::OkStatus();
      },
      options_.steady->Now() + kFatePatience);
  return !asked.ok() ? Fate::kUnknown : committed ? Fate::kDone : Fate::kRepeat;
}

absl::Status SqlSession::Read(Apply apply, absl::Time deadline) {
  for (int tries = 0;; ++tries) {
    absl::StatusOr<SqlConnection*> connection = Connect();
    absl::Status status = connection.status();
    if (status.ok()) {
      SqlTransaction transaction(**connection, options_.timeout);
      status = apply(transaction);
      const SqlResult& failure = transaction.failure_;
      if (!failure) return status;
      if (LosesConnection(*failure)) {
        Drop();
      } else if (!MayBeRepeated(*failure)) {
        return status;
      }
    }
    if (!Pause(tries, deadline)) return status;
  }
}

}  // namespace kinora

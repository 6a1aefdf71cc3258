#include "server/frontend/postgres/sql_session.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/postgres/sql_status.h"

namespace kinora {
namespace {

constexpr char kBegin[] =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT kinora_now(), pg_current_xact_id()::text::bigint";

SqlConnection::Timeout Millis(absl::Duration duration) {
  return SqlConnection::Timeout(absl::ToInt64Milliseconds(duration));
}

}  // namespace

absl::StatusOr<SqlRows> SqlTransaction::Run(const char* sql, const SqlValues& values) {
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

absl::Duration SqlHealth::Unwritable(absl::Time now) const {
  const int64_t since = failing_since_.load();
  return since == kNever ? absl::ZeroDuration() : std::max(now - absl::FromUnixMicros(since), absl::ZeroDuration());
}

void SqlHealth::NoteFailure(absl::Time now) {
  int64_t never = kNever;
  failing_since_.compare_exchange_strong(never, absl::ToUnixMicros(now));
}

void SqlHealth::NoteSuccess(absl::Time now) {
  if (failing_since_.exchange(kNever) != kNever) away_until_ = absl::ToUnixMicros(now);
}

absl::StatusOr<SqlConnection*> SqlSession::Connect() {
  if (connection_ != nullptr) return connection_.get();
  SqlResult failed = options_.driver->Connect(options_.url, Millis(options_.timeout), connection_);
  SqlRows rows;
  if (!failed && !options_.greeting.empty()) failed = RunScript(options_.greeting, rows);
  if (failed) {
    connection_.reset();
    if (options_.health != nullptr) options_.health->NoteFailure(absl::Now());
    failed->lost = true;
    return ToStatus(*failed);
  }
  if (options_.health != nullptr) options_.health->NoteSuccess(absl::Now());
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
  if (absl::Now() + pause >= deadline) return false;
  return options_.stop == nullptr || !options_.stop->WaitForNotificationWithTimeout(pause);
}

absl::Status SqlSession::Write(Apply apply, absl::Time deadline) {
  for (int tries = 0;; ++tries) {
    Try tried = TryWrite(apply);
    if (tried.fate == Fate::kUnknown) tried.fate = FateOf(tried.number, deadline);
    if (tried.fate == Fate::kUnknown) {
      return WithErrorInfo(absl::UnavailableError("the database was lost during a commit, and it is not known whether "
                                                  "the change was made; try again later"),
                           "COMMIT_UNKNOWN");
    }
    if (tried.fate == Fate::kDone || !Pause(tries, deadline)) return tried.status;
  }
}

SqlSession::Try SqlSession::TryWrite(Apply apply) {
  const absl::StatusOr<SqlConnection*> connection = Connect();
  if (!connection.ok()) return {Fate::kRepeat, connection.status()};
  SqlRows rows;
  if (const SqlResult failed = RunScript(kBegin, rows)) {
    Drop();  // whatever the reason, a new connection has no transaction
    return {Fate::kRepeat, ToStatus(*failed)};
  }
  SqlTransaction transaction(**connection, options_.timeout);
  transaction.writes_ = true;
  transaction.began_ = absl::FromUnixMicros(rows.Int(0, 0));
  const absl::Status applied = apply(transaction);
  return Judge(transaction, applied, rows.Int(0, 1));
}

SqlSession::Try SqlSession::Judge(const SqlTransaction& transaction, const absl::Status& applied, int64_t number) {
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
  return {Fate::kUnknown, applied, number};
}

SqlSession::Fate SqlSession::FateOf(int64_t number, absl::Time deadline) {
  for (int tries = 0;; ++tries) {
    std::string state = "in progress";
    const absl::Status asked = Read(
        [&](SqlTransaction& transaction) -> absl::Status {
          KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                                  transaction.Run("SELECT pg_xact_status($1::text::xid8)", {std::to_string(number)}));
          if (!rows.IsNull(0, 0)) state = rows.Bytes(0, 0);
          return absl::OkStatus();
        },
        deadline);
    if (asked.ok() && state == "committed") return Fate::kDone;
    if (asked.ok() && state == "aborted") return Fate::kRepeat;
    if (!Pause(tries, deadline)) return Fate::kUnknown;
  }
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

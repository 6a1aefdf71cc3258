#include "server/frontend/postgres/postgres_lock.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/sha256.h"
#include "server/frontend/postgres/postgres_schema.h"

namespace kinora {
namespace {

SqlSessionOptions Stoppable(SqlSessionOptions options, const absl::Notification& stop) {
  options.stop = &stop;
  return options;
}

constexpr int64_t kPlaceLock = 0x4b494e42;  // "KINB"

int64_t DigestOf(const std::string& place) {
  return place.empty() ? 0 : 1 + std::stoll(Sha256Hex(place).substr(0, 7), nullptr, 16);
}

absl::Status AskNumber(SqlTransaction& transaction, const char* sql, const SqlValues& values, int64_t& number) {
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction.Run(sql, values));
  number = rows.Int(0, 0);
  return absl::OkStatus();
}

}  // namespace

PostgresLock::PostgresLock(const SqlSessionOptions& options, DatabaseUse use, std::function<void()> on_lost)
    : steady_(*options.steady), use_(use), session_(Stoppable(options, stop_)), on_lost_(std::move(on_lost)) {}

absl::StatusOr<std::unique_ptr<PostgresLock>> PostgresLock::Take(const SqlSessionOptions& options, DatabaseUse use,
                                                                 const std::string& place, absl::Duration patience,
                                                                 std::function<void()> on_lost) {
  std::unique_ptr<PostgresLock> lock(new PostgresLock(options, use, std::move(on_lost)));
  lock->place_ = DigestOf(place);
  const absl::Time deadline = options.steady->Now() + patience;
  absl::StatusOr<bool> held = lock->TryTake(options.steady->Now());
  if (held.ok() && !*held) {
    Log(Severity::kWarning, "database_in_use", {{"waits_seconds", absl::ToInt64Seconds(patience)}});
  }
  for (int tries = 0; !held.ok() || !*held; ++tries) {
    if (!lock->session_.Pause(tries, deadline)) break;
    held = lock->TryTake(options.steady->Now());
  }
  KINORA_RETURN_IF_ERROR(held.status());
  if (!*held) {
    return absl::FailedPreconditionError(
        "another frontend uses the database; stop it, or choose another. Frontends can share a database if their "
        "artifacts are in one bucket (artifacts)");
  }
  KINORA_RETURN_IF_ERROR(lock->TakePlace(deadline));
  const auto begin_epoch = [&](SqlTransaction& transaction) {
    return AskNumber(transaction,
                     use == DatabaseUse::kAlone ? "UPDATE schema_version SET epoch = epoch + 1 RETURNING epoch"
                                                : "SELECT epoch FROM schema_version",
                     {}, lock->epoch_);
  };
  KINORA_RETURN_IF_ERROR(lock->session_.Write(begin_epoch, deadline));
  lock->keeper_ = std::thread([self = lock.get()] { self->Keep(); });
  return lock;
}

void PostgresLock::StopWatching() {
  if (!stop_.HasBeenNotified()) stop_.Notify();
  if (keeper_.joinable()) keeper_.join();
}

absl::StatusOr<bool> PostgresLock::TryTake(absl::Time deadline) {
  int64_t held = 0;
  KINORA_RETURN_IF_ERROR(session_.Read(
      [&](SqlTransaction& transaction) -> absl::Status {
        // A session that took it twice would have to free it twice.
        KINORA_RETURN_IF_ERROR(AskNumber(transaction,
                                         "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 "
                                         "AND objid = $1::bigint::oid AND pid = pg_backend_pid()",
                                         {kPostgresFrontendLock}, held));
        if (held > 0) return absl::OkStatus();
        return AskNumber(transaction,
                         use_ == DatabaseUse::kAlone ? "SELECT pg_try_advisory_lock($1)::int::bigint"
                                                     : "SELECT pg_try_advisory_lock_shared($1)::int::bigint",
                         {kPostgresFrontendLock}, held);
      },
      deadline));
  return held > 0;
}

// Two that begin at once with different places may both be told.
absl::Status PostgresLock::TakePlace(absl::Time deadline) {
  if (place_ == 0) return absl::OkStatus();
  int64_t number = 0;
  KINORA_RETURN_IF_ERROR(session_.Read(
      [&](SqlTransaction& transaction) -> absl::Status {
        KINORA_RETURN_IF_ERROR(AskNumber(transaction,
                                         "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = "
                                         "$1::bigint::oid AND pid = pg_backend_pid()",
                                         {kPlaceLock}, number));
        if (number > 0) return absl::OkStatus();
        return AskNumber(transaction,
                         "SELECT pg_try_advisory_lock_shared($1::bigint::int, $2::bigint::int)::int::bigint",
                         {kPlaceLock, place_}, number);
      },
      deadline));
  KINORA_RETURN_IF_ERROR(session_.Read(
      [&](SqlTransaction& transaction) {
        return AskNumber(transaction,
                         "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::bigint::oid AND "
                         "objid <> $2::bigint::oid AND database = (SELECT oid FROM pg_database WHERE datname = "
                         "current_database())",
                         {kPlaceLock, place_}, number);
      },
      deadline));
  if (number == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "another frontend uses the database with artifacts elsewhere; set artifacts to the same bucket and prefix");
}

absl::StatusOr<bool> PostgresLock::IsTaken() {
  const absl::Time deadline = steady_.Now() + kProbe;
  KINORA_ASSIGN_OR_RETURN(const bool held, TryTake(deadline));
  if (!held) return true;
  const absl::Status placed = TakePlace(deadline);
  if (absl::IsFailedPrecondition(placed)) return true;
  KINORA_RETURN_IF_ERROR(placed);
  int64_t epoch = 0;
  KINORA_RETURN_IF_ERROR(session_.Read(
      [&](SqlTransaction& transaction) {
        return AskNumber(transaction, "SELECT epoch FROM schema_version", {}, epoch);
      },
      deadline));
  return epoch != epoch_;
}

void PostgresLock::Keep() {
  while (!stop_.WaitForNotificationWithTimeout(kProbe)) {
    const absl::StatusOr<bool> taken = IsTaken();
    if (!taken.ok() || !*taken) continue;  // an error: the database is away
    Log(Severity::kError, "database_taken", {{"why", "another frontend took the database while it was away"}});
    session_.Drop();  // frees it, if it was taken again
    return on_lost_();
  }
}

}  // namespace kinora

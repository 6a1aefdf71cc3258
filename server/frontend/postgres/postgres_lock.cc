#include "server/frontend/postgres/postgres_lock.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

SqlSessionOptions Stoppable(SqlSessionOptions options, const absl::Notification& stop) {
  options.stop = &stop;
  return options;
}

}  // namespace

PostgresLock::PostgresLock(const SqlSessionOptions& options, std::function<void()> on_lost)
    : session_(Stoppable(options, stop_)), on_lost_(std::move(on_lost)) {}

absl::StatusOr<std::unique_ptr<PostgresLock>> PostgresLock::Take(SqlSessionOptions options, absl::Duration patience,
                                                                 std::function<void()> on_lost) {
  std::unique_ptr<PostgresLock> lock(new PostgresLock(options, std::move(on_lost)));
  const absl::Time deadline = absl::Now() + patience;
  absl::StatusOr<bool> taken = lock->TryTake(absl::Now());
  if (taken.ok() && !*taken) {
    Log(Severity::kWarning, "database_in_use", {{"waits_seconds", absl::ToInt64Seconds(patience)}});
  }
  for (int tries = 0; !taken.ok() || !*taken; ++tries) {
    if (!lock->session_.Pause(tries, deadline)) break;
    taken = lock->TryTake(absl::Now());
  }
  KINORA_RETURN_IF_ERROR(taken.status());
  if (!*taken) return absl::FailedPreconditionError("another frontend uses the database; stop it, or choose another");
  lock->keeper_ = std::thread([self = lock.get()] { self->Keep(); });
  return lock;
}

void PostgresLock::StopWatching() {
  if (!stop_.HasBeenNotified()) stop_.Notify();
  if (keeper_.joinable()) keeper_.join();
}

absl::StatusOr<bool> PostgresLock::TryTake(absl::Time deadline) {
  bool has = false;
  KINORA_RETURN_IF_ERROR(session_.Read(
      [&](SqlTransaction& transaction) -> absl::Status {
        // A session that has it takes it no second time, which it would have to free twice.
        KINORA_ASSIGN_OR_RETURN(
            const SqlRows rows,
            transaction.Run("SELECT (EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND "
                            "objid = 1263094352 AND pid = pg_backend_pid() AND database = (SELECT oid FROM pg_database "
                            "WHERE datname = current_database())) OR pg_try_advisory_lock(1263094352))::int::bigint"));
        has = rows.Int(0, 0) != 0;
        return absl::OkStatus();
      },
      deadline));
  return has;
}

void PostgresLock::Keep() {
  while (!stop_.WaitForNotificationWithTimeout(kProbe)) {
    const absl::StatusOr<bool> has = TryTake(absl::Now() + kProbe);
    if (!has.ok() || *has) continue;  // a database that is away frees the lock for nobody
    Log(Severity::kError, "database_taken", {{"why", "another frontend took the database while it was away"}});
    return on_lost_();
  }
}

}  // namespace kinora

// Keeps a database to one frontend, or to those that share it: an advisory lock of a connection that serves nothing
// else. The server frees it when the connection ends, so a frontend that is started again after a crash does not wait;
// after the loss of a machine the server notices within eleven seconds (kPostgresGreeting). Each frontend that has it
// alone begins a new epoch, from which one that was cut off learns that another has had the database alone meanwhile.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_LOCK_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_LOCK_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "server/frontend/postgres/sql_session.h"

namespace kinora {

enum class DatabaseUse { kAlone, kShared };

class PostgresLock {
 public:
  static constexpr absl::Duration kProbe = absl::Seconds(5);  // how often it checks that its connection has it

  // place: where this process has what all that share the database must have in one place, such as artifacts; a text
  // without secrets. FailedPrecondition: another process has held it for all of `patience`, alone if both uses are not
  // kShared, or has another place. on_lost: called once if another process has taken it so while the database was away
  // from this one; on the lock's thread.
  static absl::StatusOr<std::unique_ptr<PostgresLock>> Take(const SqlSessionOptions& options, DatabaseUse use,
                                                            const std::string& place, absl::Duration patience,
                                                            std::function<void()> on_lost);
  ~PostgresLock() { StopWatching(); }  // frees it
  void StopWatching();                 // ends calls of on_lost, and keeps the lock; idempotent

 private:
  PostgresLock(const SqlSessionOptions& options, DatabaseUse use, std::function<void()> on_lost);
  // Takes it unless this session has it, and returns whether it has. Errors: the database is away until `deadline`.
  absl::StatusOr<bool> TryTake(absl::Time deadline);
  // Holds a second lock, named after its place, beside which there must be none of another.
  absl::Status TakePlace(absl::Time deadline);
  // Whether another process has had it.
  absl::StatusOr<bool> IsTaken();
  void Keep();

  Clock& steady_;
  absl::Notification stop_;
  const DatabaseUse use_;
  int64_t place_ = 0;  // a digest of 28 bits; 0: none
  SqlSession session_;
  int64_t epoch_ = 0;
  const std::function<void()> on_lost_;
  std::thread keeper_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_LOCK_H_

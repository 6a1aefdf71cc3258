// Threads that run transactions, each on a connection of its own. Thread-safe; calls return at once. Callers, which may
// be clients, are told that the database is not available, and the log why.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_SQL_POOL_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_SQL_POOL_H_

#include <deque>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/frontend/jobs/store_call.h"
#include "server/frontend/postgres/sql_session.h"

namespace kinora {

struct SqlPoolOptions {
  SqlSessionOptions session;  // but for `stop`
  int writers = 4;            // connections
  int readers = 2;
  absl::Duration patience = absl::Seconds(5);  // from a call on: for how long tries begin
};

class SqlPool {
 public:
  using Apply = absl::AnyInvocable<absl::Status(SqlTransaction&)>;  // as SqlSession::Apply

  explicit SqlPool(const SqlPoolOptions& options);
  ~SqlPool() { Stop(); }
  void Stop();  // finishes pending calls, without more tries; idempotent. No calls after it

  // As SqlSession. Transactions that write with the same key run in the order of these calls. `done` runs on a thread
  // of the pool, and must not wait for one.
  void Write(std::string_view key, Apply apply, Finished done);
  void Read(Apply apply, Finished done);
  template <typename T, typename Get>
  void Read(Get get, Done<T> done) {
    auto result = std::make_shared<absl::StatusOr<T>>(absl::UnknownError("not run"));
    Read(
        [get = std::move(get), result](SqlTransaction& transaction) mutable {
          *result = get(transaction);
          return result->status();
        },
        [result, done = std::move(done)](absl::Status status) mutable {
          if (status.ok()) {
            done(*std::move(result));
          } else {
            done(std::move(status));
          }
        });
  }
  void Flush();       // blocks until `done` of all earlier calls has returned
  int calls() const;  // that wait or run

 private:
  struct Task {
    Apply apply;
    Finished done;
    absl::Time deadline;
  };
  struct Lane {  // tasks that run in their order if it has one thread
    std::deque<Task> tasks;
    bool writes = true;
  };
  void Post(Lane& lane, Apply apply, Finished done);
  void Run(Lane& lane);
  absl::Status ForCallers(absl::Status status, const Lane& lane);

  const SqlPoolOptions options_;
  absl::Notification stop_;
  mutable absl::Mutex mu_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // the first: reads. Their tasks are guarded by mu_
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_SQL_POOL_H_

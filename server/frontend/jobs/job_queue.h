// WorkQueue in memory, for a store with one frontend: it hears of all jobs from that frontend, which rebuilds it from
// JobStore::Unfinished at its start. All calls take O(log jobs) per job but Pop and ClaimNext, which visit each job
// before the one they take.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_QUEUE_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_QUEUE_H_

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/frontend/jobs/work_queue.h"

namespace kinora {

class JobQueue : public WorkQueue {
 public:
  // Called with 1 when a job is added and with -1 when it is removed, for the gauges. Runs under the queue's lock and
  // must not call the queue.
  using ChangeListener = std::function<void(const QueuedJob& job, int change)>;
  explicit JobQueue(int capacity, ChangeListener on_change = nullptr);

  // The store whose jobs wait here; not owned. Set it before the first ClaimNext, and flush the store before the queue
  // is destroyed.
  void SetStore(JobStore& store) { store_ = &store; }

  // Passes over jobs that can no longer be claimed (cancelled, deleted or damaged), which leave the queue.
  void ClaimNext(WorkRequest request, Done<std::optional<WorkClaim>> done) override;
  // Called after each Push and Requeue, outside the lock, on the caller's thread.
  void SetPushListener(std::function<void()> listener) override { on_push_ = std::move(listener); }
  absl::Status Reserve() override;
  void Unreserve() override;
  void Push(const QueuedJob& job) override;
  void Requeue(const QueuedJob& job) override;
  bool Remove(const std::string& id) override;
  std::vector<QueuedJob> TakeExpired(absl::Time now) override;
  absl::Time NextDeadline() const override;
  void Visit(absl::FunctionRef<bool(const QueuedJob&)> visit) const override;
  int Position(const std::string& id) const override;
  int size() const override;
  void Close() override;

  // Removes and returns the first job that `runnable` accepts, if any. `runnable` runs under the lock.
  std::optional<QueuedJob> Pop(absl::FunctionRef<bool(const QueuedJob&)> runnable);

 private:
  struct Order {
    bool operator()(const QueuedJob& a, const QueuedJob& b) const;
  };
  // libstdc++'s order-statistics tree: finds the position of a key in O(log jobs).
  using Jobs = __gnu_pbds::tree<QueuedJob, __gnu_pbds::null_type, Order, __gnu_pbds::rb_tree_tag,
                                __gnu_pbds::tree_order_statistics_node_update>;

  void Insert(const QueuedJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(Jobs::iterator job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int capacity_;
  const ChangeListener on_change_;
  std::function<void()> on_push_;
  JobStore* store_ = nullptr;
  mutable absl::Mutex mu_;
  Jobs jobs_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, Jobs::iterator> by_id_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<absl::Time, std::string>> deadlines_ ABSL_GUARDED_BY(mu_);  // of jobs that have one
  int reserved_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_QUEUE_H_

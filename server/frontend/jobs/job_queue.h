// The jobs that wait for a group, in the order in which they will run: higher priority first, then older first (a job
// that was requeued keeps its age). In memory: rebuilt from JobStore::Unfinished when a frontend starts. Thread-safe.
// All but Pop, which looks at each job before the one it takes, is O(log jobs).
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
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

struct QueuedJob {
  std::string id;
  std::string model;
  int priority = 0;
  absl::Time create_time;
  absl::Time queued_time = absl::InfinitePast();  // of a job that was queued again; for the wait that is measured
  absl::Time deadline = absl::InfiniteFuture();   // of the end of the job; one that runs is the dispatcher's to end
  double estimated_seconds = 0;                   // Video's; 0: not known
  v1::Generation::Recipe recipe = v1::Generation::RECIPE_UNSPECIFIED;
  std::vector<v1::LoraRef> loras{};
};

QueuedJob ToQueuedJob(const v1::Video& video, const v1::Scheduling& scheduling);

class JobQueue {
 public:
  // Called with 1 for a job that waits from now on and with -1 for one that does no more, for the gauges; it runs under
  // the queue's lock and must not call back.
  using ChangeListener = std::function<void(const QueuedJob& job, int change)>;
  explicit JobQueue(int capacity, ChangeListener on_change = nullptr);

  // Called after each Push, outside the lock, from the pushing thread; it must not block. Set it before the first Push.
  void SetPushListener(std::function<void()> listener) { on_push_ = std::move(listener); }

  // A place for a job that is being created, so that no more than `capacity` wait or are on their way to wait.
  // ResourceExhausted (with RetryInfo) when full, Unavailable when closed. Each OK is followed by one Push or one
  // Unreserve.
  absl::Status Reserve();
  void Unreserve();
  void Push(const QueuedJob& job);     // uses a reserved place
  void Requeue(const QueuedJob& job);  // no place needed: what was accepted is never refused; works on a closed queue

  // Takes the first job that `runnable` accepts, or nothing. `runnable` runs under the lock.
  std::optional<QueuedJob> Pop(absl::FunctionRef<bool(const QueuedJob&)> runnable);
  bool Remove(const std::string& id);                  // false: it does not wait here
  int Position(const std::string& id) const;           // 1: next; 0: not queued
  std::vector<QueuedJob> TakeExpired(absl::Time now);  // removes and returns those whose deadline has passed
  absl::Time NextDeadline() const;                     // infinite future: none
  int size() const;

  void Close();  // Reserve is refused from now on (drain); Pop still works
  bool closed() const;

 private:
  struct Order {
    bool operator()(const QueuedJob& a, const QueuedJob& b) const;
  };
  // libstdc++'s balanced tree whose nodes count what is below them: it tells a key's place.
  using Jobs = __gnu_pbds::tree<QueuedJob, __gnu_pbds::null_type, Order, __gnu_pbds::rb_tree_tag,
                                __gnu_pbds::tree_order_statistics_node_update>;

  void Insert(const QueuedJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(Jobs::iterator job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int capacity_;
  const ChangeListener on_change_;
  std::function<void()> on_push_;
  mutable absl::Mutex mu_;
  Jobs jobs_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, Jobs::iterator> by_id_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<absl::Time, std::string>> deadlines_ ABSL_GUARDED_BY(mu_);  // of the jobs that have one
  int reserved_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_QUEUE_H_

// The jobs that wait for a group, in the order in which they will run: higher priority first, then older first (a
// requeued job keeps its age). Held in memory and rebuilt from JobStore::Unfinished when a frontend starts.
// Thread-safe. All calls take O(log jobs) per job but Pop, which visits each job before the one it takes.
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
  absl::Time queued_time = absl::InfinitePast();  // of a requeued job, to measure its wait
  absl::Time deadline = absl::InfiniteFuture();   // for the job's end; the dispatcher enforces it for running jobs
  double estimated_seconds = 0;                   // Video.estimated_seconds; 0 if unknown
  v1::Generation::Recipe recipe = v1::Generation::RECIPE_UNSPECIFIED;
  std::vector<v1::LoraRef> loras{};
};

QueuedJob ToQueuedJob(const v1::Video& video, const v1::Scheduling& scheduling);

class JobQueue {
 public:
  // Called with 1 when a job is added and with -1 when it is removed, for the gauges. Runs under the queue's lock and
  // must not call the queue.
  using ChangeListener = std::function<void(const QueuedJob& job, int change)>;
  explicit JobQueue(int capacity, ChangeListener on_change = nullptr);

  // Called after each Push and Requeue, outside the lock, on the caller's thread; must not block. Set it before the
  // first Push.
  void SetPushListener(std::function<void()> listener) { on_push_ = std::move(listener); }

  // Reserves a place for a job that is being created. ResourceExhausted (with RetryInfo) if waiting jobs and
  // reservations reach `capacity`, Unavailable when closed. Each success must be followed by one Push or one Unreserve.
  absl::Status Reserve();
  void Unreserve();
  void Push(const QueuedJob& job);     // uses a reserved place
  void Requeue(const QueuedJob& job);  // needs no reservation and works on a closed queue

  // Removes and returns the first job that `runnable` accepts, if any. `runnable` runs under the lock.
  std::optional<QueuedJob> Pop(absl::FunctionRef<bool(const QueuedJob&)> runnable);
  bool Remove(const std::string& id);                  // false if it is not queued
  int Position(const std::string& id) const;           // 1: next; 0: not queued
  std::vector<QueuedJob> TakeExpired(absl::Time now);  // removes and returns jobs whose deadline has passed
  absl::Time NextDeadline() const;                     // infinite future if none
  int size() const;

  void Close();  // Reserve fails from now on (drain); Pop still works
  bool closed() const;

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
  mutable absl::Mutex mu_;
  Jobs jobs_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, Jobs::iterator> by_id_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<absl::Time, std::string>> deadlines_ ABSL_GUARDED_BY(mu_);  // of jobs that have one
  int reserved_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_QUEUE_H_

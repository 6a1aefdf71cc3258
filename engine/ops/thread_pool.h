// Threads that share out the tasks of one op at a time.
#ifndef KINORA_ENGINE_OPS_THREAD_POOL_H_
#define KINORA_ENGINE_OPS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace kinora {

// Used by one caller at a time, who works too: a pool of n threads has n − 1 of its own. Run allocates nothing.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t task, int thread)>;

  explicit ThreadPool(int threads);  // at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls task(i, thread) once for every i in [0, count), thread in [0, threads()); returns when all are done. Which thread does
  // which task varies: a task's result must not depend on it.
  void Run(int64_t count, Task task);

 private:
  void WorkerLoop(int thread);
  void DoTasks(Task task, int64_t count, int thread);

  absl::Mutex mu_;
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  const Task* task_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
  std::atomic<int64_t> next_{0};
  std::vector<std::thread> workers_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_THREAD_POOL_H_

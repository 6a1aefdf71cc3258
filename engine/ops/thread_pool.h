// Threads that share out the tasks of one op at a time.
#ifndef KINORA_ENGINE_OPS_THREAD_POOL_H_
#define KINORA_ENGINE_OPS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace kinora {

// Used by one caller at a time, who works too: a pool of n threads has n − 1 of its own. A task must not run its own
// pool; another one it may. Run allocates nothing. Ops follow each other within microseconds and a sleeping thread
// takes tens of them to wake, so whoever waits spins for a while before it sleeps.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t task, int thread)>;

  explicit ThreadPool(int threads);  // at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls task(i, thread) once for every i in [0, count), thread in [0, threads()); returns when all are done. Tasks
  // start in order, but which thread does which varies: a task's result must not depend on it.
  void Run(int64_t count, Task task);

 private:
  void WorkerLoop(int thread);
  bool Join(uint32_t generation);
  void DoTasks(Task task, int64_t count, int thread);

  // A run is published by a new generation, after `task_` and `count_`, which only those who joined may read: the
  // caller closes the run when no task is left and waits for them alone, not for a thread that is still waking up.
  const Task* task_ = nullptr;
  int64_t count_ = 0;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<uint64_t> roll_{0};                  // generation, whether closed, how many joined
  alignas(64) std::atomic<uint32_t> finished_{0};  // of those who joined
  alignas(64) std::atomic<int64_t> next_{0};       // task
  std::vector<std::thread> workers_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_THREAD_POOL_H_

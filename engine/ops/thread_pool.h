// Threads that share the tasks of one op at a time.
#ifndef KINORA_ENGINE_OPS_THREAD_POOL_H_
#define KINORA_ENGINE_OPS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace kinora {

// One thread at a time may call Run. The caller works too: a pool of n threads starts n − 1. A task must not call Run
// of its own pool, but may call Run of another. Run allocates nothing. Ops follow each other within microseconds and a
// sleeping thread takes tens of microseconds to wake, so waiting threads spin before they sleep.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t task, int thread)>;

  explicit ThreadPool(int threads);  // at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls task(i, thread) once for every i in [0, count), thread in [0, threads()); returns when all are done. Tasks
  // start in order, on varying threads; a task's result must not depend on its thread.
  void Run(int64_t count, Task task);

 private:
  void WorkerLoop(int thread);
  bool Join(uint32_t generation);
  void DoTasks(Task task, int64_t count, int thread);

  // Run writes `task_` and `count_`, then publishes them with a new generation. Only workers that have joined the run
  // may read them. When no task is left, the caller closes the run and waits only for those workers, not for threads
  // that are still waking up.
  const Task* task_ = nullptr;
  int64_t count_ = 0;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<uint64_t> roll_{0};                  // generation, closed flag, number of workers that joined
  alignas(64) std::atomic<uint32_t> finished_{0};  // workers that joined and are done
  alignas(64) std::atomic<int64_t> next_{0};       // next task
  std::vector<std::thread> workers_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_THREAD_POOL_H_

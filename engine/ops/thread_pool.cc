#include "engine/ops/thread_pool.h"

#include "engine/base/check.h"

namespace kinora {

ThreadPool::ThreadPool(int threads) {
  KINORA_CHECK(threads >= 1) << threads;
  workers_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { WorkerLoop(i); });
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::DoTasks(Task task, int64_t count, int thread) {
  for (int64_t i = next_.fetch_add(1); i < count; i = next_.fetch_add(1)) task(i, thread);
}

void ThreadPool::Run(int64_t count, Task task) {
  if (workers_.empty() || count <= 1) {
    for (int64_t i = 0; i < count; ++i) task(i, 0);
    return;
  }
  {
    absl::MutexLock lock(&mu_);
    task_ = &task;
    count_ = count;
    next_ = 0;
    running_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  DoTasks(task, count, 0);
  absl::MutexLock lock(&mu_);
  const auto idle = [](int* running) { return *running == 0; };
  mu_.Await(absl::Condition(+idle, &running_));
}

void ThreadPool::WorkerLoop(int thread) {
  int64_t seen = 0;
  while (true) {
    const Task* task;
    int64_t count;
    {
      absl::MutexLock lock(&mu_);
      const auto work = [this, &seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stop_ || generation_ != seen; };
      mu_.Await(absl::Condition(&work));
      if (stop_) return;
      seen = generation_;
      task = task_;
      count = count_;
    }
    DoTasks(*task, count, thread);
    absl::MutexLock lock(&mu_);
    --running_;
  }
}

}  // namespace kinora

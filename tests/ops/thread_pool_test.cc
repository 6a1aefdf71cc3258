// The thread pool's protocol: which threads join a run, wait and wake each other. Also runs under ThreadSanitizer, so
// tasks write plain memory wherever the pool's contract allows it.
#include "engine/ops/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/allocations.h"

namespace kinora {
namespace {

// The kernel's state of a thread of this process: R runs, S sleeps. 0: it has ended.
char ThreadState(const std::string& id) {
  std::ifstream file("/proc/self/task/" + id + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

std::string ThisThread() { return std::to_string(syscall(SYS_gettid)); }

std::vector<std::string> ThreadsOfThisProcess() {
  std::vector<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ids.push_back(entry.path().filename().string());
  return ids;
}

// A pool of `threads` threads that identifies its own among the process's threads.
struct WatchedPool {
  explicit WatchedPool(int threads) : before(ThreadsOfThisProcess()), pool(threads) {
    for (const std::string& id : ThreadsOfThisProcess()) {
      if (std::find(before.begin(), before.end(), id) == before.end()) workers.push_back(id);
    }
  }
  // Returns once every worker sleeps.
  void AwaitSleep() const {
    for (const std::string& id : workers) {
      while (ThreadState(id) != 'S') std::this_thread::yield();
    }
  }
  std::vector<std::string> before;
  ThreadPool pool;
  std::vector<std::string> workers{};
};

class Pools : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Pools, testing::Values(1, 2, 3, 8));

TEST_P(Pools, EveryTaskRunsOnceAndItsWritesAreSeen) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const int64_t count : {0, 1, 2, 3, 7, 8, 9, 1000}) {
    std::vector<int> runs(count, 0);
    pool.Run(count, [&](int64_t task, int) { ++runs[task]; });
    EXPECT_EQ(runs, std::vector<int>(count, 1)) << count;
  }
}

TEST_P(Pools, AThreadHasANumberOfItsOwnAndTakesTasksInOrder) {
  ThreadPool pool(GetParam());
  constexpr int64_t kTasks = 500;
  std::vector<std::vector<int64_t>> taken(pool.threads());
  pool.Run(kTasks, [&](int64_t task, int thread) { taken.at(thread).push_back(task); });
  int64_t sum = 0;
  for (const auto& tasks : taken) {
    EXPECT_TRUE(std::is_sorted(tasks.begin(), tasks.end()));
    sum += std::accumulate(tasks.begin(), tasks.end(), int64_t{0});
  }
  EXPECT_EQ(sum, kTasks * (kTasks - 1) / 2);
}

// A worker that arrives after a run has closed must not join it, nor run its tasks in the next run. With so few tasks,
// most workers are late for each run.
TEST_P(Pools, RunsFollowEachOtherAtOnce) {
  ThreadPool pool(GetParam());
  for (int run = 0; run < 20000; ++run) {
    int done[3] = {};
    pool.Run(2 + run % 2, [&](int64_t task, int) { done[task] += run + 1; });
    ASSERT_EQ(done[0], run + 1);
    ASSERT_EQ(done[1], run + 1);
    ASSERT_EQ(done[2], run % 2 == 0 ? 0 : run + 1);
  }
}

TEST_P(Pools, APoolEndsRightAfterARunOrWithoutOne) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(GetParam());
    std::vector<int> runs(i % 5, 0);
    if (i % 5 != 0) pool.Run(i % 5, [&](int64_t task, int) { ++runs[task]; });
    EXPECT_EQ(runs, std::vector<int>(i % 5, 1));
  }
}

TEST_P(Pools, ARunAllocatesNothing) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> sum{0};
  const auto task = [&](int64_t task, int) { sum += task; };
  pool.Run(100, task);
  const int64_t before = AllocationsOfThisThread();
  for (int run = 0; run < 10; ++run) pool.Run(100, task);
  EXPECT_EQ(AllocationsOfThisThread(), before);
  EXPECT_EQ(sum, 11 * 4950);
}

// Each of as many tasks as threads waits for all others, so they end only if every thread takes one.
TEST_P(Pools, AsManyTasksAsThreadsRunAtTheSameTime) {
  ThreadPool pool(GetParam());
  for (int run = 0; run < 50; ++run) {
    std::latch all(pool.threads());
    pool.Run(pool.threads(), [&](int64_t, int) { all.arrive_and_wait(); });
  }
}

TEST_P(Pools, ThreadsThatHaveGoneToSleepAreWoken) {
  WatchedPool watched(GetParam());
  ASSERT_EQ(watched.workers.size(), static_cast<size_t>(GetParam() - 1));
  for (int run = 0; run < 10; ++run) {
    watched.AwaitSleep();
    std::latch all(GetParam());
    watched.pool.Run(GetParam(), [&](int64_t, int) { all.arrive_and_wait(); });
  }
}

TEST_P(Pools, APoolWhoseThreadsSleepEnds) {
  WatchedPool watched(GetParam());
  watched.AwaitSleep();
}

TEST(ThreadPool, ACallerThatSleepsIsWokenByTheLastWorker) {
  ThreadPool pool(2);
  const std::string caller = ThisThread();
  for (int run = 0; run < 10; ++run) {
    std::latch both(2);
    bool finished = false;
    pool.Run(2, [&](int64_t, int thread) {
      both.arrive_and_wait();
      if (thread == 0) return;  // the caller has no task left, waits, and goes to sleep
      while (ThreadState(caller) != 'S') std::this_thread::yield();
      finished = true;
    });
    EXPECT_TRUE(finished);
  }
}

TEST(ThreadPool, PoolsOfSeveralCallersShareFewProcessors) {
  // Each caller has its own pool; together they need far more processors than exist.
  std::vector<std::thread> callers;
  callers.reserve(4);
  std::atomic<int> runs{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&runs] {
      ThreadPool pool(4);
      for (int run = 0; run < 200; ++run) {
        int64_t done[16] = {};
        pool.Run(16, [&](int64_t task, int) { done[task] = task; });
        runs += std::accumulate(std::begin(done), std::end(done), int64_t{0}) == 120;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 800);
}

TEST(ThreadPool, ATaskMayRunAnotherPool) {
  ThreadPool outer(2);
  std::vector<int> sums(8, 0);
  outer.Run(8, [&](int64_t task, int) {
    ThreadPool inner(2);
    int done[4] = {};
    inner.Run(4, [&](int64_t i, int) { done[i] = 1; });
    sums[task] = std::accumulate(std::begin(done), std::end(done), 0);
  });
  EXPECT_EQ(sums, std::vector<int>(8, 4));
}

TEST(ThreadPoolDeathTest, ATaskCannotRunItsOwnPool) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        ThreadPool pool(2);
        pool.Run(2, [&](int64_t, int) { pool.Run(2, [](int64_t, int) {}); });
      },
      "one caller at a time");
}

TEST(ThreadPoolDeathTest, APoolWithoutAThreadIsRefused) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(ThreadPool pool(0), "threads >= 1");
}

}  // namespace
}  // namespace kinora

#include "engine/base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace kinora {
namespace {

TEST(Memory, IsAtMostTheMachines) {
  const MemoryLimit limit = UsableMemory();
  EXPECT_GT(limit.bytes, 0);
  EXPECT_LE(limit.bytes, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE));
}

TEST(Memory, IsWhatUlimitLeavesBeyondWhatIsMapped) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer maps terabytes";
#endif
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  const rlimit small{.rlim_cur = rlim_t{1} << 30, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const MemoryLimit limit = UsableMemory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
  EXPECT_EQ(limit.by, "ulimit -v");
  EXPECT_LT(limit.bytes, 1 << 30);
  EXPECT_GT(limit.bytes, 1 << 29);
}

TEST(Memory, ThePeakOfTheProcessGrowsWithWhatIsTouchedAndStays) {
  const int64_t before = PeakProcessBytes();
  {
    const std::vector<char> touched(96 << 20, 1);
    EXPECT_EQ(touched.back(), 1);
  }
  EXPECT_GE(PeakProcessBytes(), std::max<int64_t>(before, 96 << 20));
}

TEST(MemoryDeathTest, AnAllocationThatFailsOnAnyThreadEndsTheProcessWithOneLine) {
  EXPECT_EXIT(
      {
        ExitWhenOutOfMemory("program");
        std::thread([] { throw std::bad_alloc(); }).join();
      },
      testing::ExitedWithCode(1), "^program: RESOURCE_EXHAUSTED: out of memory .*\n$");
  EXPECT_EXIT(
      {
        ExitWhenOutOfMemory("program");
        std::thread([] {
          throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        }).join();
      },
      testing::ExitedWithCode(1), "^program: RESOURCE_EXHAUSTED: a thread could not be started");
}

}  // namespace
}  // namespace kinora

#include "server/common/attended_time.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

TEST(AttendedTime, PassesAsTheClockDoesWhileItIsLookedAt) {
  FakeClock clock;
  AttendedTime attended(clock, absl::Seconds(1));
  const absl::Time begin = attended.Now();
  for (int i = 1; i <= 100; ++i) {
    clock.Advance(absl::Milliseconds(900));
    EXPECT_EQ(attended.Now() - begin, i * absl::Milliseconds(900));
  }
}

TEST(AttendedTime, OfAPauseTwoTicksCount) {
  FakeClock clock;
  AttendedTime attended(clock, absl::Seconds(1));
  const absl::Time begin = attended.Now();
  clock.Advance(absl::Hours(10));
  EXPECT_EQ(attended.Now() - begin, absl::Seconds(2));
  EXPECT_EQ(attended.Now() - begin, absl::Seconds(2));
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(attended.Now() - begin, absl::Seconds(3));
}

}  // namespace
}  // namespace kinora

#include "server/common/log_limit.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

TEST(LogLimit, AdmitsOneLinePerIntervalAndCountsTheOthers) {
  FakeClock clock;
  LogLimit limit(absl::Seconds(10), clock);
  EXPECT_EQ(limit.Admit(), 0);
  EXPECT_EQ(limit.Admit(), std::nullopt);
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(limit.Admit(), std::nullopt);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(limit.Admit(), 2);
  clock.Advance(absl::Seconds(100));
  EXPECT_EQ(limit.Admit(), 0);
  clock.Advance(-absl::Hours(1));  // the system date is set back
  EXPECT_EQ(limit.Admit(), 0);
  EXPECT_EQ(limit.Admit(), std::nullopt);
}

}  // namespace
}  // namespace kinora

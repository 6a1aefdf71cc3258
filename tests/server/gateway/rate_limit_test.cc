#include "server/gateway/rate_limit.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

TEST(RateLimit, AClientMakesTwiceTheRateAtOnceAndThenTheRate) {
  FakeClock clock;
  RateLimit limit(10, clock);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(limit.Take("a"), absl::ZeroDuration());
  EXPECT_EQ(limit.Take("a"), absl::Milliseconds(100));
  EXPECT_EQ(limit.Take("b"), absl::ZeroDuration());
  clock.Advance(absl::Milliseconds(150));
  EXPECT_EQ(limit.Take("a"), absl::ZeroDuration());
  EXPECT_EQ(limit.Take("a"), absl::Milliseconds(50));
}

TEST(RateLimit, ZeroIsNoLimit) {
  FakeClock clock;
  RateLimit limit(0, clock);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(limit.Take("a"), absl::ZeroDuration());
}

TEST(RateLimit, ManyClientsShareABucketUntilOthersAreForgotten) {
  FakeClock clock;
  RateLimit limit(0.5, clock);
  for (size_t i = 0; i < RateLimit::kMostClients; ++i) limit.Take(absl::StrCat(i));
  EXPECT_EQ(limit.Take("x"), absl::ZeroDuration());
  EXPECT_EQ(limit.Take("y"), absl::Seconds(2));  // x's
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(limit.Take("y"), absl::ZeroDuration());
  EXPECT_EQ(limit.Take("z"), absl::ZeroDuration());
}

}  // namespace
}  // namespace kinora

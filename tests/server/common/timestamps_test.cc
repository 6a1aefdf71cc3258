#include "server/common/timestamps.h"

#include <gtest/gtest.h>

namespace kinora {
namespace {

TEST(Timestamps, KeepNanosecondsBothWays) {
  for (const absl::Time time :
       {absl::FromUnixNanos(1'700'000'000'123'456'789), absl::FromUnixNanos(-1), absl::UnixEpoch()}) {
    EXPECT_EQ(FromProto(ToProto(time)), time);
    EXPECT_GE(ToProto(time).nanos(), 0);
  }
  for (const absl::Duration d : {absl::Nanoseconds(-1500000001), absl::Seconds(30), absl::ZeroDuration()}) {
    EXPECT_EQ(FromProto(ToProto(d)), d);
  }
}

TEST(Timestamps, InfinitiesBecomeTheEndsOfTheRange) {
  EXPECT_EQ(ToProto(absl::InfiniteFuture()).seconds(), 253402300799);
  EXPECT_EQ(ToProto(absl::InfinitePast()).seconds(), -62135596800);
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), 315576000000);
}

}  // namespace
}  // namespace kinora

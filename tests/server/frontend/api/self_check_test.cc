#include "server/frontend/api/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

TEST(SelfCheck, ThreeFailuresInARowAreTheEndOfLifeAndOneSuccessIsNot) {
  FakeClock clock;
  absl::Status answer;
  SelfCheck check([&] { return answer; }, clock);
  const auto pass = [&](int checks) {
    for (int i = 0; i < checks; ++i) {
      clock.AwaitWaiters(1);
      clock.Advance(kSelfCheckInterval);
    }
    clock.AwaitWaiters(1);
  };
  pass(1);
  EXPECT_THAT(check.Live(), IsOk());
  answer = absl::DeadlineExceededError("no answer came");
  pass(2);
  EXPECT_THAT(check.Live(), IsOk());
  pass(1);
  EXPECT_THAT(check.Live(), StatusIs(absl::StatusCode::kUnavailable, "no answer came"));
  answer = absl::OkStatus();
  pass(1);
  EXPECT_THAT(check.Live(), IsOk());
  answer = absl::UnavailableError("once");
  pass(2);
  EXPECT_THAT(check.Live(), IsOk());
}

}  // namespace
}  // namespace kinora

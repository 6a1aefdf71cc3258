// Durations of calls on the simulated device's streams.
#include "engine/ops/cuda/call_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/simt/control.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr int64_t kPlaces = 20;

class CallTimerTest : public testing::Test {
 protected:
  ~CallTimerTest() override { simt::Restore(); }
  // A call that enqueues nothing on the device.
  static absl::Status Nothing() { return absl::OkStatus(); }
  CallTimer::Took Hear() {
    return [this](absl::Duration took) { heard_.push_back(took); };
  }
  std::unique_ptr<Graph> CaptureCalls(int64_t calls) {
    return *stream_->Capture([&] {
      for (int64_t i = 0; i < calls; ++i) EXPECT_THAT(timer_->Around(*stream_, Nothing, Hear()), IsOk());
    });
  }

  const std::unique_ptr<CudaStream> stream_ = *CudaStream::Create();
  std::shared_ptr<CallTimer> timer_ = *CallTimer::Create(kPlaces);
  std::vector<absl::Duration> heard_;
};

TEST_F(CallTimerTest, ACallTookAsLongAsTheDeviceWasAtIt) {
  static constexpr absl::Duration kWork = absl::Milliseconds(3);
  const auto work = [](void*) {
    for (const absl::Time begin = absl::Now(); absl::Now() - begin < kWork;) continue;
  };
  const absl::Time begin = absl::Now();
  const auto call = [&] { return CudaStatus(cudaLaunchHostFunc(stream_->handle(), work, nullptr), "work"); };
  EXPECT_THAT(timer_->Around(*stream_, call, Hear()), IsOk());
  EXPECT_EQ(heard_.size(), 0u) << "before the device was waited for";
  EXPECT_THAT(stream_->Synchronize(), IsOk());
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_GE(heard_[0], kWork - absl::Microseconds(10));  // two different clocks
  EXPECT_LE(heard_[0], absl::Now() - begin + absl::Microseconds(10));
}

TEST_F(CallTimerTest, EachRunOfAGraphIsHeardOfOnce) {
  const auto graph = CaptureCalls(3);
  EXPECT_THAT(stream_->Synchronize(), IsOk());
  EXPECT_EQ(heard_.size(), 0u) << "a capture is no run";
  for (int i = 0; i < 2; ++i) graph->Replay();
  EXPECT_THAT(stream_->WaitFor(stream_->Mark()), IsOk());
  EXPECT_EQ(heard_.size(), 6u);
  graph->Replay();
  EXPECT_THAT(stream_->Synchronize(), IsOk());
  EXPECT_EQ(heard_.size(), 9u);
  for (const absl::Duration took : heard_) EXPECT_GT(took, absl::ZeroDuration());
}

TEST_F(CallTimerTest, OfRunsThatNobodyWaitedForTheLastAreHeardOf) {
  const auto graph = CaptureCalls(1);
  for (int i = 0; i < CallTimer::kKept + 5; ++i) graph->Replay();
  EXPECT_THAT(stream_->Synchronize(), IsOk());
  EXPECT_EQ(heard_.size(), CallTimer::kKept);
}

TEST_F(CallTimerTest, PlacesAreFreeAgainWhenAGraphEndsOrACallHasRun) {
  for (int round = 0; round < 3; ++round) {
    const auto graph = CaptureCalls(kPlaces - 1);
    graph->Replay();
    EXPECT_THAT(timer_->Around(*stream_, Nothing, Hear()), IsOk());
    EXPECT_THAT(stream_->Synchronize(), IsOk());
    EXPECT_EQ(heard_.size(), (round + 1) * kPlaces);
  }
}

TEST_F(CallTimerTest, CallsBeyondItsPlacesRunAndAreNotHeardOf) {
  const auto graph = CaptureCalls(kPlaces + 2);
  graph->Replay();
  int calls = 0;
  const auto call = [&] {
    ++calls;
    return absl::OkStatus();
  };
  EXPECT_THAT(timer_->Around(*stream_, call, Hear()), IsOk());
  EXPECT_THAT(stream_->Synchronize(), IsOk());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(heard_.size(), kPlaces);
}

TEST_F(CallTimerTest, AGraphOutlivesItsTimer) {
  const auto graph = CaptureCalls(1);
  timer_.reset();
  graph->Replay();
  EXPECT_THAT(stream_->Synchronize(), IsOk());
  EXPECT_EQ(heard_.size(), 1u);
}

TEST_F(CallTimerTest, ACallThatFailsIsNotHeardOf) {
  const auto call = [] { return absl::AbortedError("a rank is lost"); };
  EXPECT_THAT(timer_->Around(*stream_, call, Hear()), StatusIs(absl::StatusCode::kAborted, HasSubstr("a rank")));
  EXPECT_THAT(stream_->Synchronize(), IsOk());
  EXPECT_EQ(heard_.size(), 0u);
}

}  // namespace
}  // namespace kinora

#include "server/frontend/jobs/event_hub.h"

#include <gmock/gmock.h>

#include <atomic>

#include "engine/base/check.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

v1::VideoEvent Stored(const std::string& id, int64_t sequence) {
  v1::VideoEvent event;
  event.set_video_id(id);
  event.set_sequence(sequence);
  event.mutable_stage()->set_stage("denoise");
  return event;
}

v1::VideoEvent Step(const std::string& id, int step) {
  v1::VideoEvent event;
  event.set_video_id(id);
  event.mutable_step()->set_step(step);
  return event;
}

v1::VideoEvent Preview(const std::string& id, int step) {
  v1::VideoEvent event;
  event.set_video_id(id);
  event.mutable_preview()->set_step(step);
  event.mutable_preview()->set_image("picture");
  return event;
}

v1::VideoEvent State(const std::string& id, int64_t sequence, v1::Video::State state) {
  v1::VideoEvent event;
  event.set_video_id(id);
  event.set_sequence(sequence);
  event.mutable_state()->set_state(state);
  return event;
}

class EventHubTest : public testing::Test {
 protected:
  std::shared_ptr<Subscription> Subscribe(const std::string& id) {
    auto subscription = hub_.Subscribe(id, [this] { ++wakes_; });
    KINORA_CHECK(subscription.ok()) << subscription.status();
    return *subscription;
  }
  FakeClock clock_;
  std::atomic<int> wakes_ = 0;
  EventHub hub_{clock_, absl::Seconds(10), /*max_subscriptions=*/3};
};

TEST_F(EventHubTest, StoredEventsComeInOrderAndToTheirWatchersOnly) {
  auto a = Subscribe("a"), b = Subscribe("b");
  for (int i = 1; i <= 3; ++i) hub_.Publish(Stored("a", i));
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(a->Next()->sequence(), i);
  EXPECT_FALSE(a->Next().has_value());
  EXPECT_FALSE(b->Next().has_value());
  EXPECT_EQ(wakes_, 3);
}

TEST_F(EventHubTest, ASlowReaderSeesTheLatestStepAndEveryStoredEvent) {
  auto a = Subscribe("a");
  hub_.Publish(Stored("a", 1));
  for (int i = 1; i <= 100; ++i) hub_.PublishStep(Step("a", i));
  EXPECT_EQ(a->Next()->sequence(), 1);
  EXPECT_EQ(a->Next()->step().step(), 100);
  EXPECT_FALSE(a->Next().has_value());
}

TEST_F(EventHubTest, AStepThatOvertookItsStageIsKeptBehindIt) {
  auto a = Subscribe("a");
  v1::VideoEvent step = Step("a", 1);
  step.mutable_step()->set_stage("denoise");
  hub_.PublishStep(step);
  hub_.Publish(Stored("a", 2));
  EXPECT_TRUE(a->Next()->has_stage());
  EXPECT_EQ(a->Next()->step().step(), 1);
}

TEST_F(EventHubTest, AStepOfAnEarlierStageDoesNotFollowTheNextStage) {
  auto a = Subscribe("a");
  v1::VideoEvent step = Step("a", 8);
  step.mutable_step()->set_stage("encode");
  hub_.PublishStep(step);
  hub_.Publish(Stored("a", 2));
  EXPECT_EQ(a->Next()->sequence(), 2);
  EXPECT_FALSE(a->Next().has_value());
}

TEST_F(EventHubTest, SilenceIsFilledWithHeartbeats) {
  auto a = Subscribe("a");
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Seconds(6));
  hub_.PublishStep(Step("a", 1));
  ASSERT_TRUE(a->Next().has_value());  // at 6 s, when the silence begins
  clock_.Advance(absl::Seconds(4));
  clock_.AwaitWaiters(1);
  EXPECT_FALSE(a->Next().has_value());
  const int before = wakes_;
  clock_.Advance(absl::Seconds(6));
  while (wakes_ == before) std::this_thread::yield();
  const auto event = a->Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(event->has_heartbeat());
  EXPECT_EQ(event->video_id(), "a");
  EXPECT_FALSE(a->Next().has_value());
}

TEST_F(EventHubTest, SubscriptionsAreBoundedAndCounted) {
  auto a = Subscribe("a"), b = Subscribe("a"), c = Subscribe("c");
  EXPECT_THAT(hub_.Subscribe("d", [] {}),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("max_watchers")));
  EXPECT_EQ(hub_.subscriptions("a"), 2);
  a->Close();
  a->Close();
  EXPECT_EQ(hub_.subscriptions("a"), 1);
  b.reset();
  EXPECT_EQ(hub_.subscriptions("a"), 0);
  EXPECT_EQ(hub_.subscriptions(), 1);
  const int before = wakes_;
  hub_.Publish(Stored("a", 1));
  EXPECT_EQ(wakes_, before);
}

TEST_F(EventHubTest, TheLatestStepIsKeptForThoseWhoAskAndForgottenWithTheStage) {
  v1::Video video;
  video.set_id("a");
  video.set_state(v1::Video::RUNNING);
  hub_.PublishStep(Step("a", 3));
  hub_.AddLatestStep(video);
  EXPECT_EQ(video.progress().step(), 3);
  hub_.Publish(Stored("a", 2));
  video.clear_progress();
  hub_.AddLatestStep(video);
  EXPECT_FALSE(video.has_progress());
}

TEST_F(EventHubTest, ASlowReaderSeesTheLatestPreviewThoughStepsGoOnComing) {
  auto a = Subscribe("a");
  for (int i = 1; i <= 100; ++i) {
    hub_.PublishStep(Step("a", i));
    hub_.PublishStep(Preview("a", i));
  }
  EXPECT_EQ(a->Next()->step().step(), 100);
  hub_.PublishStep(Step("a", 101));
  const auto preview = a->Next();
  EXPECT_TRUE(preview->has_preview());
  EXPECT_EQ(preview->preview().step(), 100);
  EXPECT_EQ(preview->sequence(), 0);
  EXPECT_EQ(a->Next()->step().step(), 101);
  EXPECT_FALSE(a->Next().has_value());
}

TEST_F(EventHubTest, AWatchBeginsWithTheLatestPreviewOfAnAttemptThatRuns) {
  hub_.PublishStep(Preview("a", 1));
  hub_.PublishStep(Preview("a", 2));
  {
    auto late = Subscribe("a"), other = Subscribe("b");
    EXPECT_EQ(late->Next()->preview().step(), 2);
    EXPECT_FALSE(late->Next().has_value());
    EXPECT_FALSE(other->Next().has_value());
    hub_.PublishStep(Preview("a", 3));
    hub_.Publish(State("a", 5, v1::Video::QUEUED));
    EXPECT_TRUE(late->Next()->has_state());
    EXPECT_FALSE(late->Next().has_value());  // the preview's attempt is over
  }
  EXPECT_FALSE(Subscribe("a")->Next().has_value());
  hub_.PublishStep(Preview("a", 1));
  hub_.Publish(State("a", 6, v1::Video::RUNNING));  // the resolved request
  EXPECT_EQ(Subscribe("a")->Next()->preview().step(), 1);
  v1::VideoEvent terminal = State("a", 7, v1::Video::COMPLETED);
  *terminal.mutable_terminal() = v1::Video();
  hub_.Publish(terminal);
  EXPECT_FALSE(Subscribe("a")->Next().has_value());
}

v1::Video Running(const std::string& id) {
  v1::Video video;
  video.set_id(id);
  video.set_state(v1::Video::RUNNING);
  return video;
}

TEST_F(EventHubTest, StepsFromElsewhereReachWatchersAndReaders) {
  auto watched = Subscribe("watched");
  v1::Video asked = Running("asked");
  hub_.AddLatestStep(asked);
  EXPECT_THAT(hub_.WantedFromElsewhere(), testing::UnorderedElementsAre("watched", "asked"));
  for (const char* id : {"watched", "asked", "of no interest"}) hub_.Relay(Step(id, 7));
  EXPECT_EQ(watched->Next()->step().step(), 7);
  hub_.AddLatestStep(asked);
  EXPECT_EQ(asked.progress().step(), 7);
  v1::Video other = Running("of no interest");
  hub_.AddLatestStep(other);
  EXPECT_FALSE(other.has_progress());

  hub_.EndRelay("asked");
  asked = Running("asked");
  hub_.AddLatestStep(asked);
  EXPECT_FALSE(asked.has_progress());
}

TEST_F(EventHubTest, WhatNobodyAsksForAnyMoreIsForgotten) {
  v1::Video asked = Running("asked");
  hub_.AddLatestStep(asked);
  hub_.Relay(Step("asked", 7));
  clock_.Advance(absl::Seconds(11));
  EXPECT_THAT(hub_.WantedFromElsewhere(), testing::IsEmpty());
  hub_.AddLatestStep(asked);
  EXPECT_FALSE(asked.has_progress());
}

TEST_F(EventHubTest, ARunHereHasTheLastWord) {
  auto watched = Subscribe("a");
  hub_.PublishStep(Step("a", 8));
  hub_.Relay(Step("a", 7));
  EXPECT_THAT(hub_.WantedFromElsewhere(), testing::IsEmpty());
  EXPECT_EQ(watched->Next()->step().step(), 8);
  EXPECT_FALSE(watched->Next().has_value());
  ASSERT_TRUE(hub_.LatestHere("a").has_value());
  const int64_t version = hub_.LatestHere("a")->step_version;
  hub_.PublishStep(Preview("a", 8));
  EXPECT_GT(hub_.LatestHere("a")->preview_version, version);
  EXPECT_EQ(hub_.LatestHere("a")->step_version, version);
  EXPECT_TRUE(hub_.LatestHere("a")->step.has_value());
  v1::VideoEvent queued;
  queued.set_video_id("a");
  queued.mutable_state()->set_state(v1::Video::QUEUED);
  hub_.Publish(queued);
  EXPECT_FALSE(hub_.LatestHere("a").has_value());
}

}  // namespace
}  // namespace kinora

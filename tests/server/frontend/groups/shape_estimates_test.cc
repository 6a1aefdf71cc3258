// The dispatcher's cached estimates of request shapes, for clients that create jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::Not;

class ShapeEstimatesTest : public DispatcherTest {
 protected:
  struct Answer {
    absl::Notification came;
    absl::StatusOr<v1::Estimate> estimate;
    absl::StatusOr<v1::Estimate> Await() {
      came.WaitForNotification();
      return estimate;
    }
  };

  static v1::Generation Shape(int frames, const std::string& prompt = "a kite") {
    v1::Generation generation;
    generation.set_num_frames(frames);
    generation.set_prompt(prompt);
    return generation;
  }
  std::shared_ptr<Answer> Ask(const v1::Generation& generation) {
    auto answer = std::make_shared<Answer>();
    dispatcher_->EstimateShape("tiny", generation, [answer](absl::StatusOr<v1::Estimate> estimate) {
      answer->estimate = std::move(estimate);
      answer->came.Notify();
    });
    return answer;
  }
  // Answers rank 0's next estimate request.
  void Reply(const std::shared_ptr<RecordingLink>& link, double seconds) {
    const v1::FrontendMessage asked = link->Next();
    ASSERT_TRUE(asked.has_estimate()) << asked.ShortDebugString();
    v1::WorkerMessage message;
    v1::EstimateResult& result = *message.mutable_estimate_result();
    result.set_id(asked.estimate().id());
    *result.mutable_estimate()->mutable_effective() = asked.estimate().generation();
    result.mutable_estimate()->set_fits(true);
    result.mutable_estimate()->set_seconds(seconds);
    dispatcher_->Receive(link, message);
    Settle();
  }
};

TEST_F(ShapeEstimatesTest, RankZeroIsAskedOncePerShapeWhateverThePromptAndTheSeed) {
  const auto link = JoinGroup("a");
  const auto first = Ask(Shape(9, "a red kite")), second = Ask(Shape(9, "a car park"));  // while the first is pending
  Reply(link, 3);
  EXPECT_EQ(first->Await()->seconds(), 3);
  EXPECT_EQ(second->Await()->seconds(), 3);
  v1::Generation again = Shape(9, "a blue car");  // as long as the others
  again.set_seed(77);
  const auto known = Ask(again)->Await();
  EXPECT_EQ(known->seconds(), 3);
  EXPECT_EQ(known->effective().prompt(), "");  // must not be another client's
  EXPECT_EQ(known->effective().num_frames(), 9);
  const auto other = Ask(Shape(17));
  Reply(link, 5);  // the next request is for the other shape
  EXPECT_EQ(other->Await()->seconds(), 5);
}

TEST_F(ShapeEstimatesTest, AGroupAnswersForItselfAlone) {
  const auto link = JoinGroup("a"), other = JoinGroup("b", "1");
  const auto answer = Ask(Shape(9));
  v1::WorkerMessage message;
  message.mutable_estimate_result()->set_id(1);
  message.mutable_estimate_result()->mutable_estimate()->set_seconds(66);
  dispatcher_->Receive(other, message);
  Reply(link, 3);
  EXPECT_EQ(answer->Await()->seconds(), 3);
}

TEST_F(ShapeEstimatesTest, AnAnswerWithoutAnEstimateIsNone) {
  const auto link = JoinGroup("a");
  const auto answer = Ask(Shape(9));
  v1::WorkerMessage message;
  message.mutable_estimate_result()->set_id(link->Next().estimate().id());
  dispatcher_->Receive(link, message);
  EXPECT_EQ(answer->Await().status().code(), absl::StatusCode::kInternal);
}

TEST_F(ShapeEstimatesTest, WhatIsWrongWithOneRequestIsNotSaidToAnother) {
  const auto link = JoinGroup("a");
  const auto bad = Ask(Shape(9, "a red kite")), good = Ask(Shape(9, "a car park"));
  v1::WorkerMessage message;
  message.mutable_estimate_result()->set_id(link->Next().estimate().id());
  *message.mutable_estimate_result()->mutable_error() = ToRpcStatus(absl::InvalidArgumentError("prompt: a red kite"));
  dispatcher_->Receive(link, message);
  EXPECT_THAT(bad->Await(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a red kite")));
  EXPECT_THAT(good->Await(), StatusIs(absl::StatusCode::kUnavailable, Not(HasSubstr("kite"))));
  const auto again = Ask(Shape(9, "a car park"));  // the failure is not cached
  Reply(link, 3);
  EXPECT_EQ(again->Await()->seconds(), 3);
}

TEST_F(ShapeEstimatesTest, WhoeverWaitsIsAnsweredAfterTwoSecondsAndALateWordServesTheNext) {
  const auto link = JoinGroup("a");
  const auto tired = Ask(Shape(9));
  Settle();
  clock_.Advance(absl::Milliseconds(1900));
  Settle();
  EXPECT_FALSE(tired->came.HasBeenNotified());
  clock_.Advance(absl::Milliseconds(200));
  EXPECT_THAT(tired->Await(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  Reply(link, 3);
  EXPECT_EQ(Ask(Shape(9))->Await()->seconds(), 3);
}

TEST_F(ShapeEstimatesTest, AfterARunTheOldWordServesUntilTheNewOneComes) {
  const auto link = JoinGroup("a");
  const auto first = Ask(Shape(9));
  Reply(link, 3);
  EXPECT_EQ(first->Await()->seconds(), 3);
  const JobId id = Submit();
  End(link, AwaitRun(*link), absl::OkStatus(), /*seconds=*/2);
  AwaitState(id, v1::Video::COMPLETED);
  EXPECT_EQ(Ask(Shape(9))->Await()->seconds(), 3);
  Reply(link, 2);  // it was requested again
  EXPECT_EQ(Ask(Shape(9))->Await()->seconds(), 2);
}

TEST_F(ShapeEstimatesTest, AnotherGroupIsAskedForItself) {
  const auto link = JoinGroup("a");
  const auto first = Ask(Shape(9));
  Reply(link, 3);
  EXPECT_EQ(first->Await()->seconds(), 3);
  const auto lost = Ask(Shape(17));
  Settle();
  dispatcher_->Disconnect(link, absl::OkStatus());
  EXPECT_THAT(lost->Await(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Ask(Shape(9))->Await(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no worker group")));
  const auto next = JoinGroup("b");
  const auto second = Ask(Shape(9));
  Reply(next, 4);
  EXPECT_EQ(second->Await()->seconds(), 4);
}

TEST_F(ShapeEstimatesTest, NoMoreThanSixtyFourQuestionsWaitForAWorker) {
  const auto link = JoinGroup("a");
  for (int i = 1; i <= 64; ++i) Ask(Shape(i));
  EXPECT_THAT(Ask(Shape(65))->Await(), StatusIs(absl::StatusCode::kResourceExhausted));
  for (int i = 1; i <= 64; ++i) Reply(link, i);
  const auto again = Ask(Shape(65));
  Reply(link, 65);
  EXPECT_EQ(again->Await()->seconds(), 65);
}

}  // namespace
}  // namespace kinora

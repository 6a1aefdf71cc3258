// The ranks that may join, and limits for joined ranks, which may be untrusted although they have shown a token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Otherwise anyone with a worker token could revive an old incarnation of the group, or choose one.
TEST_F(DispatcherTest, AtTheJoinPortOnlyThePresentIncarnationOrNoneIsTaken) {
  dispatcher_->Await("far", 2);
  const auto join = [this](const std::string& incarnation, int rank) {
    v1::Hello hello = HelloOf(incarnation, "far");
    hello.set_world_size(2);
    hello.set_rank(rank);
    auto link = std::make_shared<RecordingLink>();
    dispatcher_->Join(hello, link, Entrance::kJoinPort);
    return link;
  };
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("incarnation"));
  EXPECT_THAT(join("mine", 0)->AwaitClosed(), refused);
  EXPECT_EQ(Groups().at(0).state(), "joining");
  const auto first = join("", 0);
  const std::string drawn = first->Next().welcome().incarnation();
  EXPECT_THAT(join("mine", 1)->AwaitClosed(), StatusIs(absl::StatusCode::kFailedPrecondition));
  const auto second = join(drawn, 1);
  EXPECT_EQ(second->Next().welcome().incarnation(), drawn);
  dispatcher_->Disconnect(second, absl::OkStatus());
  first->AwaitClosed().IgnoreError();
  EXPECT_THAT(join(drawn, 0)->AwaitClosed(), refused) << "of an earlier life";
}

TEST_F(DispatcherTest, AHelloOfAnySizeIsRefused) {
  v1::Hello hello = HelloOf("a");
  hello.set_address(std::string(5000, 'x'));
  EXPECT_THAT(Rejection(hello), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hello: ")));
}

TEST_F(DispatcherTest, ADescriptionHasAtMost256KiB) {
  const auto link = JoinGroup("a");
  v1::WorkerMessage changed;
  changed.mutable_model()->set_id("tiny");
  changed.mutable_model()->add_loras(std::string(3 << 20, 'x'));
  dispatcher_->Receive(link, changed);
  EXPECT_THAT(link->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("at most 262144 are allowed")));
}

TEST_F(DispatcherTest, TheNextMessageOfARankIsReadOnceItsLastIsHandled) {
  const auto link = JoinGroup("a");
  Settle();
  EXPECT_EQ(link->read_on(), 2);  // after Hello and Ready
  v1::WorkerMessage beat;
  beat.mutable_heartbeat();
  dispatcher_->Receive(link, beat);
  Settle();
  EXPECT_EQ(link->read_on(), 3);
}

// Each mark is a commit of the store.
TEST_F(DispatcherTest, ARankWhoseMarksTheStoreHasNotTakenIsReadOnLater) {
  const auto link = JoinGroup("a");
  Submit();
  const v1::Run run = AwaitRun(*link);
  v1::WorkerMessage mark;
  mark.mutable_stage()->set_video_id(run.video_id());
  mark.mutable_stage()->set_attempt(run.attempt());
  mark.mutable_stage()->set_stage(v1::STAGE_DENOISE);
  constexpr int kMarks = 200;
  for (int i = 0; i < kMarks; ++i) dispatcher_->Receive(link, mark);
  End(link, run, absl::OkStatus());
  AwaitState(run.video_id(), v1::Video::COMPLETED);
  Settle();
  EXPECT_EQ(link->read_on(), 2 + kMarks + 1) << "each once, none forgotten";
}

TEST_F(DispatcherTest, TheLastOfManyDescriptionsIsStored) {
  const auto link = JoinGroup("a");
  for (int i = 0; i < 100; ++i) {
    v1::WorkerMessage changed;
    changed.mutable_model()->set_id("tiny");
    changed.mutable_model()->add_loras(absl::StrCat("lora", i));
    dispatcher_->Receive(link, changed);
  }
  Settle();  // each description is sent to the store only after the previous one has been stored
  const auto stored = WaitFor<std::vector<v1::ModelInfo>>([this](auto done) { catalogue_->Models(std::move(done)); });
  ASSERT_THAT(stored, IsOk());
  ASSERT_EQ(stored->size(), 1u);
  EXPECT_EQ(stored->at(0).loras(0), "lora99");
}

v1::WorkerMessage Unfit(const std::string& why) {
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_unfit(why);
  return beat;
}

TEST_F(DispatcherTest, AGroupThatIsUnfitGetsNoRunAndItsJobIsQueuedAgainUncounted) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  for (int attempt = 1; attempt <= 4; ++attempt) {
    const v1::Run run = AwaitRun(*link);
    EXPECT_EQ(run.attempt(), attempt);
    dispatcher_->Receive(link, Unfit("the disk is full"));
    End(link, run, absl::CancelledError("unfit"));
    AwaitState(id, v1::Video::QUEUED, attempt + 1);
    const v1::WorkerGroup group = Groups().at(0);
    EXPECT_EQ(group.state(), "unfit");
    EXPECT_EQ(group.reason(), "rank 0: the disk is full");
    EXPECT_TRUE(link->empty());
    dispatcher_->Receive(link, Unfit(""));
  }
  End(link, AwaitRun(*link), absl::OkStatus());
  AwaitState(id, v1::Video::COMPLETED);
}

TEST_F(DispatcherTest, AGroupThatIsUnfitFromItsStartIsNotReadyAndSaysWhy) {
  GroupsHealth health;
  dispatcher_->SetHealthListener([&](const GroupsHealth& now) { health = now; });
  const auto link = std::make_shared<RecordingLink>();
  dispatcher_->Join(HelloOf("a"), link);
  link->Next();
  dispatcher_->Receive(link, Unfit("the disk is full"));
  v1::WorkerMessage ready;
  ready.mutable_ready()->mutable_model()->set_id("tiny");
  dispatcher_->Receive(link, ready);
  const JobId id = Submit();
  Settle();
  EXPECT_FALSE(health.ready);
  EXPECT_EQ(health.absent, "group 0 is unfit (rank 0: the disk is full)");
  EXPECT_TRUE(link->empty());
  EXPECT_THAT(page_.Text(), HasSubstr("kinora_group_state{group=\"0\",state=\"unfit\"} 1"));
  dispatcher_->Receive(link, Unfit(""));
  EXPECT_EQ(AwaitRun(*link).video_id(), id);
}

}  // namespace
}  // namespace kinora

// A dispatcher whose store other frontends write to, without news from them.
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

class SharedStoreTest : public DispatcherTest {
 protected:
  SharedStoreTest() {
    look_interval_ = absl::Seconds(2);
    StartDispatcher();
  }
  JobId SubmitElsewhere() {
    v1::CreateVideoRequest request;
    request.set_model("tiny");
    const auto created =
        WaitFor<Created>([&](auto done) { store_->Create(request, request.generation(), 0, std::move(done)); });
    KINORA_CHECK(created.ok()) << created.status();
    return created->video.id();
  }
  absl::StatusOr<Claimed> Claim(const JobId& id, const FrontendId& owner) {
    return WaitFor<Claimed>([&](auto done) { store_->Claim(id, owner, absl::Seconds(30), std::move(done)); });
  }
  void PassALook(const std::vector<std::shared_ptr<RecordingLink>>& links = {}) {
    Pass(look_interval_, links);
    store_->Flush();
    Groups();
  }
};

TEST_F(SharedStoreTest, AnIdleGroupTakesAJobThatAnotherFrontendCreated) {
  const auto link = JoinGroup("a");
  const JobId id = SubmitElsewhere();
  Groups();
  EXPECT_TRUE(link->empty());
  Pass(look_interval_, {link});
  EXPECT_EQ(AwaitRun(*link).video_id(), id);
}

TEST_F(SharedStoreTest, NewsMakesItLookAtOnce) {
  const auto link = JoinGroup("a");
  const JobId id = SubmitElsewhere();
  dispatcher_->LookAtStore();
  EXPECT_EQ(AwaitRun(*link).video_id(), id);
}

TEST_F(SharedStoreTest, NewsOfAQueuedJobIsLookedIntoWhileAGroupIsIdle) {
  const auto link = JoinGroup("a");
  const JobId first = SubmitElsewhere();
  dispatcher_->LookForWork();
  EXPECT_EQ(AwaitRun(*link).video_id(), first);
  const JobId second = SubmitElsewhere();
  dispatcher_->LookForWork();
  store_->Flush();
  Groups();
  EXPECT_EQ(queue_.Position(second), 0) << "no group could take it";
  PassALook({link});
  EXPECT_EQ(queue_.Position(second), 1);
}

TEST_F(SharedStoreTest, ARunThatWasCancelledElsewhereStops) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  AwaitRun(*link);
  CancelInStore(id);
  Groups();
  EXPECT_TRUE(link->empty());
  Pass(look_interval_, {link});
  EXPECT_EQ(link->Next().cancel().video_id(), id);
}

TEST_F(SharedStoreTest, AJobThatAnotherFrontendHasTakenLeavesTheQueue) {
  const JobId id = Submit();
  ASSERT_THAT(Claim(id, "another"), IsOk());
  EXPECT_EQ(queue_.Position(id), 1);
  PassALook();
  EXPECT_EQ(queue_.Position(id), 0);
}

TEST_F(SharedStoreTest, AClaimWhoseAnswerWasLostIsFound) {
  const JobId id = SubmitElsewhere();
  ASSERT_THAT(Claim(id, owner_), IsOk());
  const auto link = JoinGroup("a");
  Pass(look_interval_, {link});
  EXPECT_EQ(AwaitRun(*link).attempt(), 2);
}

TEST_F(SharedStoreTest, AJobInterruptsARunOnlyAfterAllFrontendsHaveSeenIt) {
  preempt_after_ = absl::Seconds(1);
  StartDispatcher();
  const auto link = JoinGroup("a");
  Submit();
  AwaitRun(*link);
  v1::CreateVideoRequest urgent;
  urgent.mutable_scheduling()->set_priority(5);
  Submit(urgent);
  PassALook({link});
  EXPECT_TRUE(link->empty());
  PassALook({link});
  PassALook({link});
  EXPECT_TRUE(link->Next().cancel().keep_state());
}

}  // namespace
}  // namespace kinora

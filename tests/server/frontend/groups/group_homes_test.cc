#include "server/frontend/groups/group_homes.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"
#include "tests/testing/watched_loops.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Keeps homes in memory, for the frontends that a test names.
class FakeRecords : public SharedFrontendRecords {
 public:
  void LivingFrontends(Done<std::vector<FrontendEntry>> done) override { done(std::vector<FrontendEntry>()); }
  void RemoveFrontend(const FrontendId&, Finished done) override { done(absl::OkStatus()); }
  void ClaimHome(const std::string& group, const FrontendEntry& frontend, Done<GroupHome> done) override {
    if (!status_.ok()) return done(status_);
    done(homes_.try_emplace(group, GroupHome{frontend.id, frontend.join_address}).first->second);
  }
  void LeaveHome(const std::string& group, const FrontendId& frontend, Finished done) override {
    if (homes_.contains(group) && homes_[group].frontend == frontend) homes_.erase(group);
    done(absl::OkStatus());
  }
  void FindHome(const std::string& group, Done<GroupHome> done) override {
    done(homes_.contains(group) ? homes_[group] : GroupHome());
  }

  std::map<std::string, GroupHome> homes_;
  absl::Status status_;
};

class GroupHomesTest : public testing::Test {
 protected:
  ~GroupHomesTest() override { homes_.Stop(); }

  absl::StatusOr<std::string> Find(const std::string& group) {
    return WaitFor<std::string>([&](auto done) { homes_.Find(group, std::move(done)); });
  }
  bool IsElsewhere(const std::string& group) {
    return *WaitFor<bool>([&](auto done) { homes_.IsElsewhere(group, std::move(done)); });
  }
  void Pass(absl::Duration time) {  // second by second
    for (; time > absl::ZeroDuration(); time -= absl::Seconds(1)) {
      loops_.AwaitIdle();
      clock_.Advance(absl::Seconds(1));
    }
    loops_.AwaitIdle();
  }
  std::vector<std::string> Homes() const {
    std::vector<std::string> homes;
    for (const auto& [group, home] : records_.homes_) homes.push_back(group + " at " + home.frontend);
    return homes;
  }
  void SetGroup(const std::string& state, int ranks) {
    groups_.assign(1, v1::WorkerGroup());
    groups_[0].set_id("a");
    groups_[0].set_state(state);
    for (int i = 0; i < ranks; ++i) groups_[0].add_ranks()->set_rank(i);
  }

  FakeClock clock_;
  WatchedLoops loops_{clock_};
  FakeRecords records_;
  std::vector<v1::WorkerGroup> groups_;
  GroupHomes homes_{records_,
                    {.frontend = {.id = "me", .join_address = "10.0.0.1:8471"},
                     .awaited = {"a", "b"},
                     .list = [this](Done<std::vector<v1::WorkerGroup>> done) { done(groups_); }},
                    loops_.Make()};
};

TEST_F(GroupHomesTest, AGroupJoinsWhereItsFirstRankArrives) {
  records_.homes_["b"] = {"other", "10.0.0.2:8471"};
  EXPECT_THAT(Find("a"), IsOkAndHolds(""));
  EXPECT_THAT(Find("b"), IsOkAndHolds("10.0.0.2:8471"));
  EXPECT_THAT(Homes(), ElementsAre("a at me", "b at other"));
  EXPECT_FALSE(IsElsewhere("a"));
  EXPECT_TRUE(IsElsewhere("b"));
}

TEST_F(GroupHomesTest, AStrangerGetsNoHome) {
  EXPECT_THAT(Find("stranger"), IsOkAndHolds("")) << "it is refused here";
  EXPECT_THAT(Homes(), IsEmpty());
}

TEST_F(GroupHomesTest, WithoutTheDatabaseNoGroupJoins) {
  records_.status_ = absl::UnavailableError("the database does not answer");
  EXPECT_THAT(Find("a"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the database does not answer")));
}

TEST_F(GroupHomesTest, AHomeWithoutAnAddressCannotBeJoinedFromHere) {
  records_.homes_["a"] = {"other", ""};
  EXPECT_THAT(Find("a"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("advertises no join_address")));
}

TEST_F(GroupHomesTest, AGroupThatIsThereStaysAndOneThatDoesNotComeBackLeaves) {
  ASSERT_THAT(Find("a"), IsOk());
  SetGroup("loading", 2);
  Pass(absl::Seconds(60));
  EXPECT_THAT(Homes(), ElementsAre("a at me"));
  SetGroup("lost", 2);
  Pass(absl::Seconds(8));
  EXPECT_THAT(Homes(), ElementsAre("a at me")) << "its ranks are being started again";
  ASSERT_THAT(Find("a"), IsOk());
  Pass(absl::Seconds(8));
  EXPECT_THAT(Homes(), ElementsAre("a at me")) << "one has come";
  Pass(absl::Seconds(3));
  EXPECT_THAT(Homes(), IsEmpty());
}

TEST_F(GroupHomesTest, WhileItDrainsAFrontendLetsItsGroupsGoAndTakesNone) {
  ASSERT_THAT(Find("a"), IsOk());
  SetGroup("draining", 1);
  homes_.BeginDrain();
  Pass(absl::Seconds(20));
  EXPECT_THAT(Homes(), ElementsAre("a at me")) << "its run has not ended";
  EXPECT_THAT(Find("b"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stopping")));
  SetGroup("lost", 1);
  Pass(absl::Seconds(2));
  EXPECT_THAT(Homes(), IsEmpty());
}

}  // namespace
}  // namespace kinora

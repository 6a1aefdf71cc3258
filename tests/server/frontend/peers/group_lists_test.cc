#include "server/frontend/peers/group_lists.h"

#include <gmock/gmock.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::WorkerGroup Group(const std::string& id, const std::string& state, int ranks = 0,
                      const std::string& frontend = "") {
  v1::WorkerGroup group;
  group.set_id(id);
  group.set_state(state);
  group.set_frontend(frontend);
  for (int i = 0; i < ranks; ++i) group.add_ranks()->set_rank(i);
  return group;
}

std::vector<std::string> Shown(const std::vector<v1::WorkerGroup>& groups) {
  std::vector<std::string> shown;
  shown.reserve(groups.size());
  for (const v1::WorkerGroup& group : groups)
    shown.push_back(group.id() + " " + group.state() + " " + group.frontend());
  return shown;
}

TEST(GroupLists, AFrontendHasItsOwnGroupsAndThoseThatHaveJoinedIt) {
  std::vector<v1::WorkerGroup> groups = {Group("own", "lost"), Group("far", "idle", 2), Group("further", "joining"),
                                         Group("gone", "lost", 2)};
  NameFrontend("here", {"far", "further", "gone"}, groups);
  EXPECT_THAT(Shown(groups), ElementsAre("own lost here", "far idle here", "further joining ", "gone lost "));
}

TEST(GroupLists, AGroupIsListedWhereItIsOrOnce) {
  EXPECT_THAT(Shown(JoinGroupLists({{Group("a", "joining"), Group("b", "joining"), Group("c", "joining")},
                                    {Group("a", "idle", 1, "second"), Group("b", "lost"), Group("c", "joining")},
                                    {Group("a", "lost"), Group("b", "joining"), Group("c", "joining")}})),
              ElementsAre("a idle second", "b lost ", "c joining "));
}

TEST(GroupLists, GroupsOfTheSameNameThatFrontendsStartAreAllListed) {
  const auto groups = JoinGroupLists({{Group("0", "idle", 1, "first")}, {Group("0", "busy", 1, "second")}});
  EXPECT_THAT(Shown(groups), ElementsAre("0 idle first", "0 busy second"));
  EXPECT_THAT(FrontendOfGroup(groups, "0"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("set it to first or second")));
}

TEST(GroupLists, AGroupIsFoundByItsName) {
  const std::vector<v1::WorkerGroup> groups = {Group("a", "idle", 1, "first"), Group("b", "joining")};
  EXPECT_THAT(FrontendOfGroup(groups, "a"), IsOkAndHolds("first"));
  EXPECT_THAT(FrontendOfGroup(groups, "b"), IsOkAndHolds("")) << "this one may start it";
  EXPECT_THAT(FrontendOfGroup(groups, "c"), StatusIs(absl::StatusCode::kNotFound));
  std::vector<v1::WorkerGroup> not_all = groups;
  not_all.push_back(Group("", "unreachable", 0, "third"));
  EXPECT_THAT(FrontendOfGroup(not_all, "c"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("third")));
  EXPECT_THAT(FrontendOfGroup(not_all, "a"), IsOkAndHolds("first"));
}

}  // namespace
}  // namespace kinora

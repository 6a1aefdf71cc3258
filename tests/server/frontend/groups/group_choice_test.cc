// Which group takes a job.
#include <map>

#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

using GroupChoice = DispatcherTest;

TEST_F(GroupChoice, GroupsTakeOnlyJobsOfTheirModelHigherPriorityFirst) {
  v1::CreateVideoRequest other, low, high;
  other.set_model("other");
  high.mutable_scheduling()->set_priority(5);
  const JobId not_ours = Submit(other), later = Submit(low), sooner = Submit(high);
  const auto link = JoinGroup("a");
  const v1::Run first = AwaitRun(*link);
  EXPECT_EQ(first.video_id(), sooner);
  End(link, first, absl::OkStatus());
  const v1::Run second = AwaitRun(*link);
  EXPECT_EQ(second.video_id(), later);
  End(link, second, absl::OkStatus());
  AwaitState(later, v1::Video::COMPLETED);
  Groups();
  EXPECT_TRUE(link->empty());
  EXPECT_EQ(AwaitRun(*JoinGroup("b", "1", "other")).video_id(), not_ours);
}

// So that none cools down while another works without a pause.
TEST_F(GroupChoice, OfIdleGroupsTheOneThatHasBeenSoTheLongestTakesTheJob) {
  std::map<std::string, std::shared_ptr<RecordingLink>> links;
  for (const char* group : {"b", "a"}) {
    links[group] = JoinGroup(group, group);
    Groups();  // it has been heard
    clock_.Advance(absl::Seconds(1));
  }
  for (const char* turn : {"b", "a", "b", "a"}) {
    const JobId id = Submit();
    const v1::Run run = AwaitRun(*links[turn]);
    EXPECT_EQ(run.video_id(), id) << turn;
    End(links[turn], run, absl::OkStatus());
    AwaitState(id, v1::Video::COMPLETED);
    clock_.Advance(absl::Seconds(1));
  }
}

TEST_F(GroupChoice, TwoModelsOfOneIdAreNotServedAsOne) {
  const auto join = [&](const std::string& group, const std::string& digest) {
    auto link = std::make_shared<RecordingLink>();
    dispatcher_->Join(HelloOf("of " + group, group), link);
    EXPECT_TRUE(link->Next().has_welcome());
    v1::WorkerMessage ready;
    ready.mutable_ready()->mutable_model()->set_id("tiny");
    (*ready.mutable_ready()->mutable_model()->mutable_digests())["model.safetensors"] = digest;
    dispatcher_->Receive(link, ready);
    return link;
  };
  join("first", "one");
  join("same", "one");
  const auto other = join("other", "another");
  std::map<std::string, v1::WorkerGroup> groups;
  for (const v1::WorkerGroup& group : Groups()) groups[group.id()] = group;
  EXPECT_EQ(groups["first"].state(), "idle");
  EXPECT_EQ(groups["same"].state(), "idle");
  EXPECT_EQ(groups["other"].state(), "lost");
  EXPECT_THAT(groups["other"].reason(), testing::HasSubstr("serves other files as \"tiny\""));
}

}  // namespace
}  // namespace kinora

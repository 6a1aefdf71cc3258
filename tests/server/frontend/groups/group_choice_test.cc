// The choice of the group that gets a job.
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
  Settle();
  EXPECT_TRUE(link->empty());
  EXPECT_EQ(AwaitRun(*JoinGroup("b", "1", "other")).video_id(), not_ours);
}

// So that no group stays unused while another works without a pause.
TEST_F(GroupChoice, OfIdleGroupsTheOneThatHasBeenSoTheLongestTakesTheJob) {
  std::map<std::string, std::shared_ptr<RecordingLink>> links;
  for (const char* group : {"b", "a"}) {
    links[group] = JoinGroup(group, group);
    Settle();  // its Ready has been handled
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

// Prefers groups whose weights already have the requested LoRAs.
class LoraChoice : public DispatcherTest {
 protected:
  // Joins a group that has `loras`, with their names in their digests.
  std::shared_ptr<RecordingLink> Join(const std::string& group, const std::vector<std::string>& loras) {
    auto link = std::make_shared<RecordingLink>();
    dispatcher_->Join(HelloOf("of " + group, group), link);
    EXPECT_TRUE(link->Next().has_welcome());
    v1::WorkerMessage ready;
    *ready.mutable_ready()->mutable_model() = Model(loras);
    dispatcher_->Receive(link, ready);
    Settle();  // its Ready has been handled
    clock_.Advance(absl::Seconds(1));
    return link;
  }
  static v1::ModelInfo Model(const std::vector<std::string>& loras) {
    v1::ModelInfo model;
    model.set_id("tiny");
    model.mutable_parts()->set_distilled_lora(true);
    for (const std::string& lora : loras) {
      model.add_loras(lora);
      (*model.mutable_digests())["lora/" + lora] = "sha256:" + lora;
    }
    return model;
  }
  static v1::CreateVideoRequest With(const std::string& lora, double strength = 1) {
    v1::CreateVideoRequest request;
    if (lora.empty()) return request;
    v1::LoraRef& ref = *request.mutable_generation()->add_loras();
    ref.set_id(lora);
    ref.set_strength(strength);
    ref.set_digest("sha256:" + lora);
    return request;
  }
  // Ends the run successfully; the weights then have the LoRAs that it requested, and `besides`.
  void EndWith(const std::shared_ptr<RecordingLink>& link, const v1::Run& run,
               const std::vector<v1::LoraRef>& besides = {}) {
    v1::WorkerMessage message;
    v1::RunResult& result = *message.mutable_run_result();
    result.set_video_id(run.video_id());
    result.set_attempt(run.attempt());
    *result.mutable_loras() = run.generation().loras();
    for (const v1::LoraRef& lora : besides) *result.add_loras() = lora;
    dispatcher_->Receive(link, message);
    AwaitState(run.video_id(), v1::Video::COMPLETED);
    clock_.Advance(absl::Seconds(1));
  }
};

TEST_F(LoraChoice, OfIdleGroupsTheOneWhoseWeightsBearTheJobsLorasTakesItThoughAnotherHasBeenIdleForLonger) {
  const auto a = Join("a", {"ink", "oil"}), b = Join("b", {"ink", "oil"});
  Submit(With("ink"));
  const v1::Run ink = AwaitRun(*a);
  Submit(With("oil"));
  EndWith(b, AwaitRun(*b));
  EndWith(a, ink);  // b has been idle for longer
  for (int i = 0; i < 2; ++i) {
    const JobId again = Submit(With("ink"));
    const v1::Run run = AwaitRun(*a);
    EXPECT_EQ(run.video_id(), again);
    EndWith(a, run);
  }
  Submit(With("oil"));
  EndWith(b, AwaitRun(*b));
  Submit(With("ink", 0.5));  // another strength is another set; the longest idle group gets it
  EndWith(a, AwaitRun(*a));
}

TEST_F(LoraChoice, AJobWithoutLorasPrefersWeightsWithoutThemAndTheModelsOwnCounts) {
  const auto a = Join("a", {"ink"}), b = Join("b", {"ink"});
  Submit(With("ink"));
  EndWith(a, AwaitRun(*a));
  Submit();
  EndWith(b, AwaitRun(*b));
  Submit();  // a has been idle for longer, but has ink
  EndWith(b, AwaitRun(*b));
  v1::LoraRef own;
  own.set_id("distilled");
  own.set_strength(1);
  v1::CreateVideoRequest distilled;
  distilled.mutable_generation()->set_recipe(v1::Generation::DISTILLED);
  Submit(distilled);
  EndWith(a, AwaitRun(*a), {own});
  Submit(distilled);  // b has been idle for longer
  EndWith(a, AwaitRun(*a), {own});
}

TEST_F(LoraChoice, AJobWaitsForAGroupThatHasItsFileAndFailsWhereNoneHasIt) {
  const auto a = Join("a", {}), b = Join("b", {"ink"});
  Submit(With("ink"));
  const v1::Run first = AwaitRun(*b);
  const JobId waits = Submit(With("ink"));
  Settle();
  EXPECT_TRUE(a->empty());
  EndWith(b, first);
  const v1::Run second = AwaitRun(*b);
  EXPECT_EQ(second.video_id(), waits);
  EndWith(b, second);

  v1::WorkerMessage news;
  *news.mutable_model() = Model({});
  dispatcher_->Receive(b, news);
  Settle();                  // the news has been handled
  Submit(With("ink", 0.5));  // the longest idle group runs it and reports the error
  EXPECT_EQ(AwaitRun(*a).generation().loras(0).id(), "ink");
}

TEST_F(LoraChoice, AJobWaitsForTheGroupThatIsAwayWithItsFileButNotForEver) {
  const auto a = Join("a", {}), b = Join("b", {"ink"});
  dispatcher_->Disconnect(b, absl::OkStatus());
  const JobId waits = Submit(With("ink"));
  Settle();
  EXPECT_TRUE(a->empty());
  const auto back = Join("b", {"ink"});
  const v1::Run run = AwaitRun(*back);
  EXPECT_EQ(run.video_id(), waits);
  EndWith(back, run);

  dispatcher_->Disconnect(back, absl::OkStatus());
  const JobId tires = Submit(With("ink"));
  Pass(GroupLimits{}.join_timeout - absl::Seconds(10), {a});  // it was lost twice within a few seconds
  EXPECT_TRUE(a->empty());
  Pass(absl::Seconds(11), {a});
  EXPECT_EQ(AwaitRun(*a).video_id(), tires);  // and reports the error
}

TEST_F(LoraChoice, AfterAStartAJobWaitsForTheGroupThatHadItsFileBefore) {
  known_models_ = {Model({"ink"})};
  StartDispatcher();
  const auto a = Join("a", {});
  const JobId waits = Submit(With("ink"));
  Settle();
  EXPECT_TRUE(a->empty());
  const auto b = Join("b", {"ink"});
  const v1::Run run = AwaitRun(*b);
  EXPECT_EQ(run.video_id(), waits);
  EndWith(b, run);

  StartDispatcher();
  const auto again = Join("a", {});
  const JobId tires = Submit(With("ink"));
  Pass(GroupLimits{}.join_timeout - absl::Seconds(10), {again});
  EXPECT_TRUE(again->empty());
  Pass(absl::Seconds(11), {again});
  EXPECT_EQ(AwaitRun(*again).video_id(), tires);
}

// So that all ranks use the same file, even if the job was accepted before its digest was known.
TEST_F(LoraChoice, ARunNamesTheFileOfEachLora) {
  const auto a = Join("a", {"ink"});
  v1::CreateVideoRequest request = With("ink");
  request.mutable_generation()->mutable_loras(0)->clear_digest();
  Submit(request);
  EXPECT_EQ(AwaitRun(*a).generation().loras(0).digest(), "sha256:ink");
}

TEST_F(LoraChoice, AModelHasTheLorasOfAllItsGroupsAndNewsOfThemAreStored) {
  Join("a", {"ink"});
  const auto b = Join("b", {"oil"});
  const auto listed = [&] {
    const auto models = WaitFor<std::vector<v1::ModelInfo>>([&](auto done) { catalogue_->Models(std::move(done)); });
    if (models->empty()) return std::vector<std::string>();
    return std::vector<std::string>(models->at(0).loras().begin(), models->at(0).loras().end());
  };
  Settle();
  EXPECT_THAT(listed(), testing::ElementsAre("ink", "oil"));
  v1::WorkerMessage news;
  *news.mutable_model() = Model({"oil", "pen"});
  dispatcher_->Receive(b, news);
  Settle();
  EXPECT_THAT(listed(), testing::ElementsAre("ink", "oil", "pen"));
  EXPECT_EQ(Groups().size(), 2u);
  EXPECT_EQ(Groups()[1].state(), "idle");
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
  EXPECT_THAT(groups["other"].reason(), testing::HasSubstr("already serves different files as \"tiny\""));
}

}  // namespace
}  // namespace kinora

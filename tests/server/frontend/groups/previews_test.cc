// Previews from a worker to the watchers of its job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

TEST_F(DispatcherTest, PreviewsFollowTheirStageAndAreNotStored) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  AwaitRun(*link);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto watch, hub_.Subscribe(id, [] {}));
  v1::WorkerMessage stage;
  stage.mutable_stage()->set_video_id(id);
  stage.mutable_stage()->set_attempt(1);
  stage.mutable_stage()->set_stage(v1::STAGE_DENOISE);
  dispatcher_->Receive(link, stage);
  const auto show = [&](int step, int attempt, size_t bytes) {
    v1::WorkerMessage message;
    v1::PreviewMark& mark = *message.mutable_preview();
    mark.set_video_id(id);
    mark.set_attempt(attempt);
    mark.mutable_preview()->set_step(step);
    mark.mutable_preview()->set_image(std::string(bytes, 'x'));
    dispatcher_->Receive(link, message);
  };
  show(1, 1, 10);
  show(2, 1, 256 << 10);
  show(3, 1, (256 << 10) + 1);  // larger than any real preview
  show(4, 2, 10);               // belongs to no run
  Settle();                     // the stage is stored, and the preview that waited for it is shown
  std::vector<std::string> seen;
  while (const auto event = watch->Next()) {
    if (event->has_stage()) seen.push_back("stage");
    if (event->has_preview()) seen.push_back(absl::StrCat("preview ", event->preview().step()));
  }
  EXPECT_THAT(seen, testing::ElementsAre("stage", "preview 2"));
  const auto history = WaitFor<JobHistory>([&](auto done) { store_->EventsAfter(id, 0, std::move(done)); });
  ASSERT_THAT(history, IsOk());
  for (const v1::VideoEvent& event : history->events) EXPECT_FALSE(event.has_preview());
  watch->Close();
}

}  // namespace
}  // namespace kinora

// A resume point in a whole frontend: across a restart, and its file until the job's end.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/server/frontend/frontend_fixture.h"

namespace kinora {
namespace {

class ResumedJobTest : public FrontendTest {
 protected:
  std::string PathOf(const std::string& id, const std::string& file) {
    return directory_.File(absl::StrCat("state/artifacts/", id, "/", file));
  }
  void AwaitGone(const std::string& path) {
    while (std::filesystem::exists(path)) std::this_thread::yield();
  }
};

TEST_F(ResumedJobTest, AJobContinuesInTheNextFrontendAndNoStateIsLeftOrShown) {
  Start();
  auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  v1::WorkerMessage message;
  message.mutable_resume()->set_video_id(worker->AwaitRun().video_id());
  message.mutable_resume()->set_attempt(1);
  v1::ResumePoint& point = *message.mutable_resume()->mutable_point();
  point.set_id("resume-4");
  point.set_bytes(5);
  point.set_stage(v1::STAGE_DENOISE);
  point.set_step(4);
  std::filesystem::create_directories(PathOf(id, "1"));
  for (const char* file : {"1/resume-4", "1/resume-3"}) WriteFile(PathOf(id, file), "state");
  worker->Send(message);
  while (Get(id)->resume_point().step() != 4) std::this_thread::yield();
  Restart();
  AwaitGone(PathOf(id, "1/resume-3"));  // no record names it
  worker.reset();
  worker = StartWorker("two");
  const v1::Run run = worker->AwaitRun();
  EXPECT_EQ(run.attempt(), 2);
  EXPECT_EQ(run.resume_from().step(), 4);
  EXPECT_EQ(run.input_paths().at("resume"), id + "/1/resume-4");
  EXPECT_TRUE(std::filesystem::exists(PathOf(id, "1/resume-4")));
  worker->Complete(run, "bytes");
  const v1::Video video = AwaitEnd(id);
  EXPECT_EQ(video.state(), v1::Video::COMPLETED);
  EXPECT_EQ(video.artifacts_size(), 1);
  EXPECT_FALSE(video.has_resume_point());
  AwaitGone(PathOf(id, "1/resume-4"));
  EXPECT_THAT(Download(id), IsOkAndHolds(std::string("bytes")));
  EXPECT_THAT(Download(id, 0, "resume-4"), StatusIs(absl::StatusCode::kNotFound));
  auto samples = Metrics();
  EXPECT_EQ(samples["kinora_resume_points_accepted_total"], 0) << "of this frontend";
}

}  // namespace
}  // namespace kinora

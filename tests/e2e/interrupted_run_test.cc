// Runs of the tiny model that are interrupted and continue where they were: the clip is the one that kinora-render
// writes without an interruption, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/resumed_run.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST_F(ResumedRun, AKilledWorkersJobContinuesAndItsClipIsTheWholeRuns) {
  // On the simulated device a step takes a second, and nine frames take half a minute to decode.
  const int steps = Device() == "cpu" ? kManySteps : 4;
  const std::string frames = Device() == "cpu" ? "--frames=9" : "--frames=1";
  server_.Start(true, {"--worker-checkpoint-seconds=0.01"});
  const std::string id = Begin(steps, {frames});
  AwaitPoint(id, steps / 4);
  kill(server_.WorkerPid(), SIGKILL);
  const auto video = AwaitResumed(id);
  EXPECT_EQ(video["attempt"], 2);
  EXPECT_GE(video["resolved"]["resumed_from_step"], steps / 4);
  EXPECT_EQ(Download(id), kinora::Rendered(directory_, steps, {frames}));
  EXPECT_THAT(server_.Run({"get", id}).out, HasSubstr("resumed from step"));
  EXPECT_THAT(server_.MetricsPage(), HasSubstr("kinora_resumed_runs_total{outcome=\"resumed\"} 1"));
}

// Without an interval, only a worker that is told to leave stores the state. A run that is nearly done is not told to:
// on a fast machine the run is made longer until it is.
TEST_F(ResumedRun, AFrontendThatIsStoppedKeepsTheStateForTheNext) {
  const std::vector<std::string> flags = {"--worker-checkpoint-seconds=0", "--drain-grace-seconds=2"};
  constexpr int kSteps = 999;
  std::string id, frames;
  for (int latent_frames = 1; id.empty(); latent_frames *= 2) {
    ASSERT_LE(latent_frames, 64) << "no run is long enough";
    frames = absl::StrCat("--frames=", 8 * latent_frames + 1);
    server_.Start(true, flags);
    const std::string begun = Begin(kSteps, {frames});
    AwaitStep(begun, 3);
    kill(server_.frontend().pid(), SIGTERM);
    EXPECT_EQ(server_.frontend().Wait(), 0) << server_.frontend().Err();
    if (server_.frontend().Err().find("event=run_interrupted") != std::string::npos) id = begun;
  }
  server_.Start(true, flags);
  AwaitResumed(id);
  EXPECT_EQ(Download(id), kinora::Rendered(directory_, kSteps, {frames}));
}

TEST_F(ResumedRun, AnUrgentJobInterruptsARunWhichContinues) {
  server_.Start(true, {"--worker-checkpoint-seconds=0", "--preempt-after-seconds=0.001"});
  const std::string id = Begin();
  AwaitStep(id, 3);
  const std::string urgent = server_.Create(
      kPrompt, {"--recipe=ONE_STAGE", "--steps=2", "--width=64", "--height=64", "--frames=9", "--priority=5"});
  RunToEnd(server_.Client({"watch", urgent}));
  EXPECT_EQ(server_.Json({"get", urgent})["state"], "COMPLETED");
  EXPECT_EQ(server_.Json({"get", id}).value("preemptions", 0), 1);
  AwaitResumed(id);
  EXPECT_EQ(Download(id), Rendered(kManySteps));
}

TEST_F(ResumedRun, AnotherPrecisionBeginsAnewAndSaysSo) {
  server_.Start(true, {"--worker-checkpoint-seconds=0.01"});
  const std::string id = Begin();
  AwaitPoint(id, 1);
  kill(server_.frontend().pid(), SIGKILL);
  server_.frontend().Wait();
  server_.Start(true, {"--worker-checkpoint-seconds=0.01", "--worker-precision=bf16"});
  RunToEnd(server_.Client({"watch", id}));
  const auto video = server_.Json({"get", id});
  EXPECT_EQ(video["state"], "COMPLETED") << video.dump();
  EXPECT_EQ(video["resolved"].value("resumed_from_step", 0), 0);
  EXPECT_THAT(video["resolved"].value("not_resumed_because", ""), HasSubstr("precision"));
}

}  // namespace
}  // namespace kinora

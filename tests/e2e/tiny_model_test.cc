// The served path with the real worker and the committed tiny model: the clips must equal kinora-render's, whatever
// happens to the processes meanwhile.
#include "tests/e2e/tiny_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/testing/full_disk.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr int kFailed = 3, kCancelled = 4;

TEST_F(TinyModel, TheServerMakesTheFileThatKinoraRenderMakes) {
  server_.Start();
  const Result result = RunToEnd(Generate("served.mp4", 4));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("denoise"));
  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), Rendered(4));
}

TEST_F(TinyModel, AJobIsDoneOnceMoreToTheSameBytesOrItIsSaidWhatDiffers) {
  server_.Start();
  ASSERT_EQ(RunToEnd(Generate("first.mp4", 2)).status, 0);
  const std::string id = server_.Json({"list"})["id"];
  const auto once_more = [&](const std::string& file, const std::string& more) {
    return server_.Run({"generate", "--from", id.substr(0, 8), "-o", directory_.File(file), more});
  };
  const Result same = once_more("same.mp4", "--priority=1");
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.err, HasSubstr("identical to the clip of job " + id));
  EXPECT_EQ(ReadFile(directory_.File("same.mp4")), ReadFile(directory_.File("first.mp4")));
  const Result other = once_more("other.mp4", "--seed=8");
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("differs from the clip of job " + id + ": a different request"));
  EXPECT_EQ(server_.Run({"generate", "--from", "nothing", "-o", directory_.File("none.mp4")}).status, 2);
}

TEST_F(TinyModel, AJobWhoseWorkerIsKilledEndsInTheSameFile) {
  server_.Start();
  Process client(Generate("served.mp4", kManySteps));
  ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
  ASSERT_EQ(kill(server_.WorkerPid(), SIGKILL), 0);
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  EXPECT_THAT(client.Err(), HasSubstr("QUEUED again"));
  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), Rendered(kManySteps));
}

TEST_F(TinyModel, AJobWhoseFrontendIsKilledEndsInTheSameFile) {
  server_.Start();
  Process client(Generate("served.mp4", kManySteps));
  ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
  server_.frontend().Signal(SIGKILL);
  server_.frontend().Wait();
  EXPECT_TRUE(server_.frontend().AwaitEndOfOutput());  // the worker has ended too
  server_.Start(false);
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), Rendered(kManySteps));
}

TEST_F(TinyModel, CtrlCEndsTheRunAtItsNextStepAndTheNextJobIsWhole) {
  server_.Start();
  Process client(Generate("cancelled.mp4", 999));
  ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled);
  ASSERT_EQ(RunToEnd(Generate("served.mp4", 4)).status, 0);
  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), Rendered(4));
}

TEST_F(TinyModel, TwoTokenRanksMakeTheSameFile) {
  server_.Start(true, {"--worker-ranks=tokens=2"});
  ASSERT_EQ(RunToEnd(Generate("served.mp4", 4)).status, 0);
  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), Rendered(4));
  Process client(Generate("cancelled.mp4", 999));  // ranks agree on the cancel and continue together
  ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled);
  ASSERT_EQ(RunToEnd(Generate("again.mp4", 4)).status, 0);
  EXPECT_EQ(ReadFile(directory_.File("again.mp4")), Rendered(4));
}

// The disk fills up during a run and has space again after the run's failure, which is stored although the disk is
// full. Outcome and group are the same for any number of ranks: the same process runs the next job.
TEST_F(TinyModel, ADiskThatFillsFailsTheJobAndLosesNoGroupWithOneRankOrTwo) {
  const std::string disk = directory_.File("state");
  ASSERT_EQ(mkdir(disk.c_str(), 0700), 0);
  for (const char* ranks : {"", "tokens=2"}) {
    const auto result = OnSmallDisk(disk, 10 << 20, [&]() -> std::string {
      // The child exits without running destructors outside this function, so the frontend must be stopped here.
      struct Stop {
        ~Stop() { server.TakeFrontend(); }
        Server& server;
      } const stop{server_};
      server_.Start(true, {absl::StrCat("--worker-ranks=", ranks)});
      const pid_t worker = server_.WorkerPid();
      const std::string id = server_.Create("a red fox", Flags(kManySteps));
      Process watch(server_.Client({"watch", id}));
      if (watch.AwaitLine("denoise").empty()) return "no step";
      const std::string filler = disk + "/filler";
      std::ofstream(filler) << std::string(10 << 20, 'x') << std::flush;
      if (const int status = watch.Wait(); status != kFailed) return absl::StrCat("watch ended with ", status);
      unlink(filler.c_str());
      const auto video = server_.Json({"get", id});
      if (video["error"]["code"] != 8 || video["attempt"] != 1) return video.dump();
      if (video["error"]["details"].dump().find("DISK_FULL") == std::string::npos) return video["error"].dump();
      if (RunToEnd(Generate("next.mp4", 4)).status != 0) return "the next job failed";
      return server_.WorkerPid() == worker ? "" : "another process";
    });
    if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
    EXPECT_EQ(result, SmallDiskResult::kPassed) << "ranks: " << ranks;
  }
}

TEST_F(TinyModel, TheWorkersPagesTellTheTruth) {
  server_.Start(true, {"--worker-http-address=127.0.0.1:0"});
  const int port = std::atoi(LogField(server_.frontend().AwaitLine("event=pages"), "http_port").c_str());
  EXPECT_THAT(HttpGet(port, "/livez"), HasSubstr("200 OK"));
  EXPECT_THAT(HttpGet(port, "/readyz"), HasSubstr("200 OK"));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(RunToEnd(Generate("served.mp4", 4)).status, 0);
  const std::string page = HttpGet(port, "/metrics");
  EXPECT_THAT(page, HasSubstr("kinora_denoise_step_seconds_count{stage=\"denoise\"} 8\n"));
  EXPECT_THAT(page, HasSubstr("kinora_stage_duration_seconds_count{stage=\"denoise\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("kinora_artifact_upload_seconds_count 2\n"));
}

TEST_F(TinyModel, AWorkerThatCannotLoadSaysWhyAndTheFrontendEnds) {
  server_.Start(false, {"--worker-precision=fp8"});
  EXPECT_NE(server_.frontend().AwaitLine("precision: fp8: not available on the device cpu"), "");
  EXPECT_NE(server_.frontend().AwaitLine("exit status 2"), "");
  EXPECT_NE(server_.frontend().Wait(), 0);
  EXPECT_THAT(server_.frontend().Err(), HasSubstr("kinora-frontend: worker: precision: fp8: not available"));
}

TEST_F(TinyModel, SaysWhatItResolved) {
  server_.Start();
  std::vector<std::string> command = Generate("served.mp4", 4);
  command.push_back("--json");
  command.push_back("--quiet");
  const Result result = RunToEnd(command);
  EXPECT_EQ(result.err, "");
  const auto stage = nlohmann::json::parse(result.out)["video"]["resolved"]["stages"][0];
  EXPECT_EQ(stage["width"], 64);
  ASSERT_EQ(stage["sigmas"].size(), 5u);
  EXPECT_NEAR(stage["sigmas"][0].get<double>(), 1, 1e-6);
  EXPECT_EQ(stage["sigmas"][4], 0);
  const auto resolved = nlohmann::json::parse(result.out)["video"]["resolved"];
  EXPECT_EQ(resolved["tile_plan"], "untiled");
  EXPECT_EQ(resolved["digests"].size(), 4u);
  EXPECT_EQ(resolved["digests"], server_.Json({"models"})["digests"]);
}

TEST_F(TinyModel, ATraceLiesBesideTheClipAndASoundHasItsOwnLength) {
  server_.Start();
  std::vector<std::string> traced = Generate("fox.mp4", 1);
  traced.emplace_back("--trace");
  const Result clip = RunToEnd(traced);
  EXPECT_THAT(clip.out, HasSubstr("fox.trace.json"));
  EXPECT_FALSE(nlohmann::json::parse(ReadFile(directory_.File("fox.trace.json")))["traceEvents"].empty());
  const Result sound = RunToEnd(Generate("tone.wav", 1));
  EXPECT_THAT(sound.err, HasSubstr("use --audio-only"));
  // 9 frames at 24 fps are 0.375 s, or 9 sound tokens: 4 · 9 − 3 rows of 10 ms.
  EXPECT_THAT(sound.out, HasSubstr("tone.wav  audio, 0.33 s, seed 7"));
}

TEST_F(TinyModel, GuidanceByFlagsChangesTheRecipesDefaults) {
  server_.Start();
  const auto defaults = server_.Json({"estimate", "--prompt=x"})["effective"];
  const auto effective = server_.Json({"estimate", "--prompt=x", "--cfg=2,5", "--size=64x64"})["effective"];
  EXPECT_EQ(effective["video_guidance"]["cfg_scale"], 2);
  EXPECT_EQ(effective["audio_guidance"]["cfg_scale"], 5);
  EXPECT_EQ(effective["video_guidance"]["stg_scale"], defaults["video_guidance"]["stg_scale"]);
  EXPECT_EQ(effective["width"], 64);
  const Result wrong = server_.Run({"estimate", "--prompt=x", "--cfg=2000"});
  EXPECT_THAT(wrong.err, HasSubstr("generation.video_guidance.cfg_scale is set by --cfg or --video-guidance"));
}

TEST_F(TinyModel, SaysTheDigestOfEachOfItsFiles) {
  server_.Start();
  const auto digests = server_.Json({"models"})["digests"];
  const std::string folder = KINORA_SOURCE_DIR "/models/tiny/";
  for (const auto& [name, file] : std::vector<std::pair<std::string, std::string>>{
           {"ltx-2.3-tiny-dev.safetensors", "ltx-2.3-tiny-dev.safetensors"},
           {"model.safetensors", "gemma/model.safetensors"},
           {"tokenizer.model", "gemma/tokenizer.model"},
           {"text_encoder/config.json", "gemma/config.json"}}) {
    const std::string sum = RunToEnd({"/usr/bin/sha256sum", folder + file}).out.substr(0, 64);
    EXPECT_EQ(digests[name], "sha256:" + sum) << name;
  }
  EXPECT_EQ(digests.size(), 4u) << digests;
}

TEST_F(TinyModel, DescribesItselfAndEstimates) {
  server_.Start();
  const auto model = server_.Json({"models"});
  EXPECT_EQ(model["id"], "tiny");
  EXPECT_EQ(model["family"], "ltx-2.3");
  EXPECT_THAT(model["recipes"].dump(), HasSubstr("ONE_STAGE"));
  EXPECT_GT(model["limits"][0]["max_frames"], 9);
  std::vector<std::string> small = {"estimate", "--prompt=x"}, large = small;
  for (const std::string& flag : Flags(4)) small.push_back(flag);
  for (const std::string& flag : Flags(8)) large.push_back(flag);
  const auto estimate = server_.Json(small);
  EXPECT_TRUE(estimate["fits"]);
  EXPECT_GT(estimate["seconds"], 0);
  EXPECT_GT(server_.Json(large)["flops"], estimate["flops"]);
}

}  // namespace
}  // namespace kinora

// Jobs whose clips the diffusion decoder of LTX-2.5 makes: however a job is watched, ended or interrupted while its
// clip is decoded, the clip is the one that kinora-render writes, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/resumed_run.h"
#include "tests/e2e/tiny_2_5.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr int kCancelled = 4;

std::vector<std::string> Sized(int width, int height, int frames) {
  return {"--recipe=DISTILLED", absl::StrCat("--width=", width), absl::StrCat("--height=", height),
          absl::StrCat("--frames=", frames)};
}
// A clip of one tile whose decoding takes seconds, and its denoising less than one.
const std::vector<std::string> kLong = Sized(384, 256, 73);

std::string RenderedByDiffusion(const TemporaryDirectory& directory, std::vector<std::string> flags) {
  flags.push_back(absl::StrCat("--model=", kDiffusionDecoder));
  return RenderedFrom(directory, flags);
}

class DiffusionDecoderJobs : public ResumedRun {
 protected:
  DiffusionDecoderJobs()
      : ResumedRun({absl::StrCat("--worker-model=", kTiny25), absl::StrCat("--worker-model=", kDiffusionDecoder),
                    "--worker-model=kind=distilled", "--worker-model-id=tiny",
                    absl::StrCat("--worker-device=", Device()), "--worker-precision=f32", "--worker-threads=2"}) {}

  std::string CreateLong() {
    std::vector<std::string> flags = kLong;
    flags.emplace_back("--seed=7");
    return server_.Create(kPrompt, flags);
  }
  // Waits until the job's clip is being decoded.
  void AwaitDecoding(const std::string& id) {
    while (true) {
      const nlohmann::json video = server_.Json({"get", id});
      ASSERT_TRUE(video["state"] == "QUEUED" || video["state"] == "RUNNING") << video.dump();
      if (video["progress"].value("stage", "") == "decode_video") return;
    }
  }
};

TEST_F(DiffusionDecoderJobs, CanBeCancelledWhileTheyAreDecoded) {
  server_.Start();
  const pid_t worker = server_.WorkerPid();
  Process client(server_.Generate(kPrompt, directory_.File("cancelled.mp4"), Sized(512, 320, 121)));
  ASSERT_NE(client.AwaitLine("decode_video"), "") << client.Err();
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled) << client.Err();
  const std::vector<std::string> next = Sized(64, 64, 9);
  ASSERT_EQ(RunToEnd(server_.Generate(kPrompt, directory_.File("next.mp4"), next)).status, 0);
  EXPECT_EQ(ReadFile(directory_.File("next.mp4")), RenderedByDiffusion(directory_, next));
  EXPECT_EQ(server_.WorkerPid(), worker);
}

TEST_F(DiffusionDecoderJobs, ContinueAfterTheirWorkerIsKilledWhileItDecodes) {
  server_.Start(true, {"--worker-checkpoint-seconds=0.01"});
  const std::string id = CreateLong();
  AwaitDecoding(id);
  AwaitPoint(id, 1);
  kill(server_.WorkerPid(), SIGKILL);
  EXPECT_EQ(AwaitResumed(id)["attempt"], 2);
  EXPECT_EQ(Download(id), RenderedByDiffusion(directory_, kLong));
}

TEST_F(DiffusionDecoderJobs, ContinueAfterADrainWhileTheyAreDecoded) {
  const std::vector<std::string> flags = {"--worker-checkpoint-seconds=0.01", "--drain-grace-seconds=0.05"};
  server_.Start(true, flags);
  const std::string id = CreateLong();
  AwaitDecoding(id);
  AwaitPoint(id, 1);
  server_.frontend().Signal(SIGTERM);
  EXPECT_EQ(server_.frontend().Wait(), 0) << server_.frontend().Err();
  server_.Start(true, flags);
  AwaitResumed(id);
  EXPECT_EQ(Download(id), RenderedByDiffusion(directory_, kLong));
}

TEST_F(DiffusionDecoderJobs, ShowPreviewsAndTheClipIsTheSame) {
  server_.Start();
  const std::vector<std::string> size = Sized(128, 96, 25);
  std::vector<std::string> flags = size;
  flags.insert(flags.end(), {"--preview-every=1", "--seed=7"});
  std::string id, shown;
  // A watch that begins after the last step sees no preview.
  while (shown.find("\"preview\"") == std::string::npos && !HasFailure()) {
    id = server_.Create(kPrompt, flags);
    const Result watch = server_.Run({"watch", id, "--json"});
    EXPECT_EQ(watch.status, 0) << watch.err;
    shown = watch.out;
  }
  EXPECT_THAT(shown, HasSubstr("image/jpeg"));
  EXPECT_EQ(Download(id), RenderedByDiffusion(directory_, size));
}

// On ranks that are processes, with the other rule for borders.
TEST(DiffusionDecoderOnRanks, MakesTheClipOfOneProcess) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("kinora.textproto");
  WriteFile(path, absl::StrCat("groups { id: 'pair' processes: 2 worker { model: '", kTiny25, "' model: '",
                               kDiffusionDecoder, "' model: 'kind=distilled' model_id: 'tiny' device: '", Device(),
                               "' precision: 'f32' threads: 2 http_address: '' ranks: 'tokens=2' "
                               "decoder_border: 'repeat' } }\n"));
  Server server(directory, {.binary = KINORA_WORKER_BINARY, .flags = {}});
  server.Start(true, {absl::StrCat("--config=", path)});
  std::vector<std::string> flags = Sized(128, 96, 9);
  const Result made = RunToEnd(server.Generate(kPrompt, directory.File("served.mp4"), flags));
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string served = ReadFile(directory.File("served.mp4"));
  EXPECT_NE(served, RenderedByDiffusion(directory, flags));
  flags.emplace_back("--decoder-border=repeat");
  EXPECT_EQ(served, RenderedByDiffusion(directory, flags));
}

}  // namespace
}  // namespace kinora

// An LTX-2.5 in the layout of the released files, one for each part, through the whole server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/tiny_2_5.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class SeparateFiles : public TinyModel {
 protected:
  SeparateFiles()
      : TinyModel({absl::StrCat("--worker-model=", kTiny25), "--worker-model=kind=distilled", "--worker-model-id=tiny",
                   absl::StrCat("--worker-device=", Device()), "--worker-precision=f32", "--worker-threads=2"}) {}
};

TEST_F(SeparateFiles, OfOneFolderAreServedAsKinoraRenderRendersThem) {
  const std::vector<std::string> flags = {"--recipe=DISTILLED_TWO_STAGE", "--width=128", "--height=64", "--frames=9"};
  server_.Start();
  const nlohmann::json model = server_.Json({"models"});
  EXPECT_EQ(model["family"], "ltx-2.5");
  const Result made = RunToEnd(server_.Generate(kPrompt, directory_.File("served.mp4"), flags));
  ASSERT_EQ(made.status, 0) << made.err;

  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), RenderedFrom(directory_, flags));

  const std::string jobs = server_.Run({"list", "--json"}).out;
  const nlohmann::json digests = nlohmann::json::parse(jobs.substr(0, jobs.find('\n')))["resolved"]["digests"];
  for (const char* file : {"ltx-2.5-tiny-transformer.safetensors", "gemma4-tiny-with-proj-ltx-2.5.safetensors",
                           "ltx-2.5-tiny-video-vae-conv.safetensors", "ltx-2.5-tiny-audio-vae.safetensors",
                           "ltx-2.5-tiny-latent-spatial-upscaler-x2.safetensors"}) {
    EXPECT_THAT(digests.value(file, ""), HasSubstr("sha256:")) << file;
  }
}

// The ranks are processes; the first one alone predicts the length.
TEST(SeparateFilesOnRanks, ChooseTheSameLengthAndMakeTheSameClip) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("kinora.textproto");
  WriteFile(path, absl::StrCat("groups { id: 'pair' processes: 2 worker { model: '", kTiny25,
                               "' model: 'kind=distilled' model_id: 'tiny' device: '", Device(),
                               "' precision: 'f32' threads: 2 http_address: '' ranks: 'tokens=2' } }\n"));
  Server server(directory, {.binary = KINORA_WORKER_BINARY, .flags = {}});
  server.Start(true, {absl::StrCat("--config=", path)});
  const std::vector<std::string> flags = {"--recipe=DISTILLED", "--width=64", "--height=64", "--frame-rate=120",
                                          "--auto-length=0..2"};
  const Result made = RunToEnd(server.Generate(kPrompt, directory.File("served.mp4"), flags));
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(ReadFile(directory.File("served.mp4")), RenderedFrom(directory, flags));
}

// 120 frames per second, so that the 0.23 s that the model predicts are more than one frame.
TEST_F(SeparateFiles, ChooseTheLengthOfAClip) {
  server_.Start();
  EXPECT_EQ(server_.Json({"models"})["parts"]["duration_head"], true);
  const std::vector<std::string> size = {"--recipe=DISTILLED", "--width=64", "--height=64", "--frame-rate=120"};
  std::vector<std::string> flags = size;
  flags.emplace_back("--auto-length=0..2");
  const Result made = RunToEnd(server_.Generate(kPrompt, directory_.File("chosen.mp4"), flags));
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string jobs = server_.Run({"list", "--json"}).out;
  const nlohmann::json job = nlohmann::json::parse(jobs.substr(0, jobs.find('\n')));
  const int frames = job["resolved"].value("num_frames", 0);
  EXPECT_GT(frames, 1);
  EXPECT_EQ(job["effective"]["auto_length"], nlohmann::json({{"min_seconds", 0}, {"max_seconds", 2}}));
  EXPECT_EQ(job["effective"].value("num_frames", 0), 0);

  flags = size;
  flags.push_back(absl::StrCat("--frames=", frames));
  const Result given = RunToEnd(server_.Generate(kPrompt, directory_.File("given.mp4"), flags));
  ASSERT_EQ(given.status, 0) << given.err;
  EXPECT_EQ(ReadFile(directory_.File("chosen.mp4")), ReadFile(directory_.File("given.mp4")));
}

}  // namespace
}  // namespace kinora

// An LTX-2.5 in the layout of the released files, one for each part, through the whole server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr char kFolder[] = KINORA_SOURCE_DIR "/models/tiny-2.5";

class SeparateFiles : public TinyModel {
 protected:
  SeparateFiles()
      : TinyModel({absl::StrCat("--worker-model=", kFolder), "--worker-model=kind=distilled", "--worker-model-id=tiny",
                   absl::StrCat("--worker-device=", Device()), "--worker-precision=f32", "--worker-threads=2"}) {}
};

TEST_F(SeparateFiles, OfOneFolderAreServedAsKinoraRenderRendersThem) {
  const std::vector<std::string> flags = {"--recipe=DISTILLED_TWO_STAGE", "--width=128", "--height=64", "--frames=9"};
  server_.Start();
  const nlohmann::json model = server_.Json({"models"});
  EXPECT_EQ(model["family"], "ltx-2.5");
  const Result made = RunToEnd(server_.Generate(kPrompt, directory_.File("served.mp4"), flags));
  ASSERT_EQ(made.status, 0) << made.err;

  std::vector<std::string> render = {KINORA_RENDER_BINARY,
                                     "--model",
                                     kFolder,
                                     "--model",
                                     "kind=distilled",
                                     "--prompt",
                                     kPrompt,
                                     "--seed=7",
                                     "--precision=f32",
                                     "--threads=2",
                                     "--output",
                                     directory_.File("rendered.mp4"),
                                     absl::StrCat("--device=", Device())};
  render.insert(render.end(), flags.begin(), flags.end());
  const Result rendered = RunToEnd(render);
  ASSERT_EQ(rendered.status, 0) << rendered.err;
  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), ReadFile(directory_.File("rendered.mp4")));

  const std::string jobs = server_.Run({"list", "--json"}).out;
  const nlohmann::json digests = nlohmann::json::parse(jobs.substr(0, jobs.find('\n')))["resolved"]["digests"];
  for (const char* file : {"ltx-2.5-tiny-transformer.safetensors", "gemma4-tiny-with-proj-ltx-2.5.safetensors",
                           "ltx-2.5-tiny-video-vae-conv.safetensors", "ltx-2.5-tiny-audio-vae.safetensors",
                           "ltx-2.5-tiny-latent-spatial-upscaler-x2.safetensors"}) {
    EXPECT_THAT(digests.value(file, ""), HasSubstr("sha256:")) << file;
  }
}

}  // namespace
}  // namespace kinora

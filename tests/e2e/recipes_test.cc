// What a request takes besides words and numbers, through the whole server: what it makes is what kinora-render makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr char kStyle[] = "lora=style:" KINORA_SOURCE_DIR "/tests/golden/data/lora-tiny-style.safetensors";

class Recipes : public TinyModel {
 protected:
  Recipes()
      : TinyModel({absl::StrCat("--worker-model=", kModel), absl::StrCat("--worker-model=", kText),
                   "--worker-model=kind=dev", absl::StrCat("--worker-model=", kStyle), "--worker-model-id=tiny",
                   absl::StrCat("--worker-device=", Device()), "--worker-precision=f32", "--worker-threads=2"}) {}
  Result Clip(const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> flags = ClipFlags(2);
    flags.insert(flags.end(), more.begin(), more.end());
    return RunToEnd(server_.Generate(kPrompt, directory_.File(file), flags));
  }
};

TEST_F(Recipes, ALoraIsListedPutOnForTheJobsThatNameItAndTakenOff) {
  server_.Start();
  EXPECT_EQ(server_.Json({"models"})["loras"][0], "style");
  const std::vector<std::string> with = {"--lora=style:0.5"};
  for (const auto& [file, flags] :
       {std::pair<const char*, std::vector<std::string>>{"plain.mp4", {}}, {"styled.mp4", with}, {"again.mp4", {}}}) {
    const Result result = Clip(file, flags);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  const auto bytes = [&](const char* file) { return ReadFile(directory_.File(file)); };
  EXPECT_EQ(bytes("plain.mp4"), kinora::Rendered(directory_, 2));
  EXPECT_EQ(bytes("again.mp4"), bytes("plain.mp4"));
  EXPECT_EQ(bytes("styled.mp4"), kinora::Rendered(directory_, 2, {"--model", kStyle, "--lora=style:0.5"}));
  EXPECT_NE(bytes("styled.mp4"), bytes("plain.mp4"));
  const Result refused = Clip("none.mp4", {"--lora=stile"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("generation.loras[0].id: stile is not one of this model's LoRAs, which are style"));
}

// A dev model with its distilled LoRA and an upsampler.
class TwoStages : public TinyModel {
 protected:
  static std::vector<std::string> Parts() {
    const std::string data = KINORA_SOURCE_DIR "/tests/golden/data/";
    return {absl::StrCat("distilled_lora=", data, "lora-tiny-style.safetensors"),
            absl::StrCat("spatial_upsampler=", data, "upsampler-tiny-x2.safetensors")};
  }
  static std::vector<std::string> ServerFlags() {
    std::vector<std::string> flags = {absl::StrCat("--worker-model=", kModel),
                                      absl::StrCat("--worker-model=", kText),
                                      "--worker-model=kind=dev",
                                      "--worker-model-id=tiny",
                                      absl::StrCat("--worker-device=", Device()),
                                      "--worker-precision=f32",
                                      "--worker-threads=2"};
    for (const std::string& part : Parts()) flags.push_back(absl::StrCat("--worker-model=", part));
    return flags;
  }
  TwoStages() : TinyModel(ServerFlags()) {}
};

TEST_F(TwoStages, EveryRecipeIsServedAsKinoraRenderMakesIt) {
  server_.Start();
  for (const std::string recipe : {"TWO_STAGE", "DISTILLED", "DISTILLED_TWO_STAGE", "HQ"}) {
    const std::string path = directory_.File(recipe + ".mp4");
    std::vector<std::string> flags = {"--recipe=" + recipe, "--width=64", "--height=64", "--frames=9"};
    if (recipe == "TWO_STAGE" || recipe == "HQ") flags.push_back("--steps=2");
    const Result served = RunToEnd(server_.Generate(kPrompt, path, flags));
    ASSERT_EQ(served.status, 0) << recipe << served.err;
    std::vector<std::string> command = {KINORA_RENDER_BINARY,
                                        "--model",
                                        kModel,
                                        "--model",
                                        kText,
                                        "--model",
                                        "kind=dev",
                                        "--prompt",
                                        kPrompt,
                                        "--seed=7",
                                        "--precision=f32",
                                        "--threads=2",
                                        "--output",
                                        directory_.File("r.mp4"),
                                        absl::StrCat("--device=", Device())};
    command.insert(command.end(), flags.begin(), flags.end());
    for (const std::string& part : Parts()) command.insert(command.end(), {"--model", part});
    const Result rendered = RunToEnd(command);
    ASSERT_EQ(rendered.status, 0) << recipe << rendered.err;
    EXPECT_EQ(ReadFile(path), ReadFile(directory_.File("r.mp4"))) << recipe;
  }
}

}  // namespace
}  // namespace kinora

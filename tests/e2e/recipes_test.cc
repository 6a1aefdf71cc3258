// Requests with input files, recipes and sound through the whole server. The results must equal kinora-render's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/common/sha256.h"
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

TEST_F(Recipes, AnImageIsUploadedAndShownAndADamagedOneEndsItsJobAlone) {
  const std::string image = KINORA_SOURCE_DIR "/tests/server/decode/data/camera.png";
  server_.Start();
  for (const auto& [file, flags] : {std::pair<const char*, std::vector<std::string>>{"plain.mp4", {}},
                                    {"shown.mp4", {"--image", image}},
                                    {"again.mp4", {"--image", image}}}) {
    const Result result = Clip(file, flags);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err.find("read_inputs") != std::string::npos, !flags.empty()) << result.err;
  }
  const auto bytes = [&](const char* file) { return ReadFile(directory_.File(file)); };
  EXPECT_NE(bytes("shown.mp4"), bytes("plain.mp4"));
  EXPECT_EQ(bytes("shown.mp4"), bytes("again.mp4"));
  EXPECT_EQ(bytes("shown.mp4"), kinora::Rendered(directory_, 2, {"--image", image}));
  const std::string id = Sha256Hex(ReadFile(image));
  const std::string jobs = server_.Run({"list", "--json"}).out;  // one line per job, newest first
  const nlohmann::json resolved = nlohmann::json::parse(jobs.substr(0, jobs.find('\n')))["resolved"];
  EXPECT_EQ(resolved["digests"]["input/" + id], "sha256:" + id);
  EXPECT_EQ(resolved["digests"].count("lora/style"), 1);
  EXPECT_EQ(resolved["condition_crf"][0], 33);

  WriteFile(directory_.File("damaged.png"), ReadFile(image).substr(0, 5000));
  const Result damaged = Clip("none.mp4", {"--image", directory_.File("damaged.png")});
  EXPECT_EQ(damaged.status, 3) << damaged.err;
  EXPECT_THAT(damaged.err, HasSubstr("input " + Sha256Hex(ReadFile(directory_.File("damaged.png"))) + ": "));
  EXPECT_EQ(Clip("after.mp4", {}).status, 0);
  EXPECT_EQ(bytes("after.mp4"), bytes("plain.mp4"));
}

TEST_F(Recipes, AClipIsMadeForASoundAsKinoraRenderMakesIt) {
  const std::string sound = directory_.File("sound.wav");
  std::string samples(2 * 48'000, '\0');  // one second, mono
  for (size_t i = 0; i < samples.size(); i += 2) samples[i + 1] = static_cast<char>(i / 200 % 40);
  const auto little = [](uint32_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  WriteFile(sound, "RIFF" + little(36 + samples.size(), 4) + "WAVEfmt " + little(16, 4) + little(1, 2) + little(1, 2) +
                       little(48'000, 4) + little(96'000, 4) + little(2, 2) + little(16, 2) + "data" +
                       little(samples.size(), 4) + samples);
  server_.Start();
  const Result heard = Clip("heard.mp4", {"--audio", sound});
  ASSERT_EQ(heard.status, 0) << heard.err;
  EXPECT_EQ(ReadFile(directory_.File("heard.mp4")), kinora::Rendered(directory_, 2, {"--audio", sound}));
}

TEST_F(Recipes, AClipIsMadeAnewInPartAsKinoraRenderMakesIt) {
  const std::string retake = KINORA_SOURCE_DIR "/tests/server/decode/data/clip.mp4:0.1-0.3";
  server_.Start();
  const Result anew = Clip("anew.mp4", {"--retake", retake});
  ASSERT_EQ(anew.status, 0) << anew.err;
  EXPECT_EQ(ReadFile(directory_.File("anew.mp4")), kinora::Rendered(directory_, 2, {"--retake", retake}));
}

TEST_F(Recipes, AnInputThatIsNotThereIsRefusedByItsField) {
  server_.Start();
  const std::string request = R"({"conditions": [{"image": {"input_id": "kite.png"}}]})";
  WriteFile(directory_.File("request.json"), request);
  const Result refused = Clip("none.mp4", {"--request", directory_.File("request.json")});
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("generation.conditions[0].image.input_id: no input with this id is stored"));
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

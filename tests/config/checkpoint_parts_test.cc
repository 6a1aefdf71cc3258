#include "engine/config/checkpoint_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"
#include "tests/weights/named_files.h"
#include "tests/weights/test_files.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

struct Transformer {
  std::string version = "2.5.0", gemma = R"({"gemma_version":"gemma4-12b-ltx-v1"})";
};

// Writes a transformer and a text encoder with this configuration, and checks them.
absl::Status CheckText(const Transformer& transformer, const std::string& text_config) {
  const TempFolder folder;
  WriteNames(folder.File("dit.safetensors"), {"model.diffusion_model.proj_out.weight"},
             transformer.gemma.empty()
                 ? std::map<std::string, std::string>{{"model_version", transformer.version}}
                 : std::map<std::string, std::string>{{"model_version", transformer.version},
                                                      {"gemma_source_checkpoint", transformer.gemma}});
  WriteNames(folder.File("text.safetensors"), {"model.layers.0.post_feedforward_layernorm.weight"},
             {{"gemma_config", text_config}});
  const auto checkpoint =
      Checkpoint::Open({.paths = {folder.File("dit.safetensors"), folder.File("text.safetensors")}});
  return checkpoint.ok() ? CheckPartsBelongTogether(**checkpoint) : checkpoint.status();
}

TEST(TextEncoder, IsTheOneThatTheTransformerNames) {
  EXPECT_THAT(CheckText({}, R"({"gemma_version":"gemma4-12b-ltx-v1"})"), IsOk());
  EXPECT_THAT(CheckText({}, R"({"gemma_version":"gemma4-12b-ltx-v2"})"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("text.safetensors"), HasSubstr("\"gemma4-12b-ltx-v2\""),
                             HasSubstr("dit.safetensors was trained with \"gemma4-12b-ltx-v1\""))));
  EXPECT_THAT(CheckText({}, R"({"model_type":"gemma3"})"), StatusIs(StatusCode::kInvalidArgument));
}

TEST(TextEncoder, MustBeNamedByNewTransformersUnlessNeitherFileSays) {
  EXPECT_THAT(CheckText({.gemma = ""}, R"({"gemma_version":"x"})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("lacks gemma_source_checkpoint")));
  EXPECT_THAT(CheckText({.gemma = ""}, R"({"model_type":"gemma4_unified"})"), IsOk());
}

TEST(TextEncoder, OfOlderModelsIsGemma3) {
  EXPECT_THAT(CheckText({.version = "2.3.0", .gemma = ""}, R"({"model_type":"gemma3"})"), IsOk());
  EXPECT_THAT(CheckText({.version = "2.3.0", .gemma = ""}, R"({"model_type":"gemma4_unified"})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("ltx-2.3 was trained with gemma3")));
}

TEST(Versions, OfPartsMayDifferOnlyWithinOneLatentSpace) {
  const TempFolder folder;
  WriteNames(folder.File("dit"), {"model.diffusion_model.proj_out.weight"}, {{"model_version", "2.5.0"}});
  for (const auto& [version, fits] : {std::pair("2.3.0", true), {"2.5.1", true}, {"2.0.0", false}}) {
    WriteNames(folder.File("vae"), {"vae.decoder.conv_in.conv.weight"}, {{"model_version", version}});
    const auto checkpoint = Checkpoint::Open({.paths = {folder.File("dit"), folder.File("vae")}});
    ASSERT_THAT(checkpoint, IsOk());
    const absl::Status checked = CheckPartsBelongTogether(**checkpoint);
    EXPECT_EQ(checked.ok(), fits) << version;
    if (!fits) {
      EXPECT_THAT(checked, StatusIs(StatusCode::kInvalidArgument,
                                    AllOf(HasSubstr("vae: model_version 2.0.0"), HasSubstr("2.5.0"))));
    }
  }
}

TEST(Parts, ThatAreMissingAreNamedWithTheArgumentThatGivesThem) {
  const TempFolder folder;
  std::vector<std::string> names = {"model.diffusion_model.x",
                                    "model.diffusion_model.video_embeddings_connector.x",
                                    "text_embedding_projection.x",
                                    "vae.x",
                                    "audio_vae.x",
                                    "vocoder.x"};
  const char* const arguments[] = {
      "transformer", "connectors", "text_encoder=", "video_vae=", "audio_vae=", "audio_vae="};
  const auto check = [&](const std::vector<std::string>& of, bool video) {
    WriteNames(folder.File("model"), of);
    const auto checkpoint = Checkpoint::Open({.paths = {folder.File("model")}});
    return checkpoint.ok() ? CheckPartsArePresent(**checkpoint, video) : checkpoint.status();
  };
  EXPECT_THAT(check(names, true), IsOk());
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> others = names;
    others.erase(others.begin() + static_cast<int64_t>(i));
    EXPECT_THAT(check(others, true), StatusIs(StatusCode::kInvalidArgument, HasSubstr(arguments[i])));
  }
  names.erase(names.begin() + 3);
  EXPECT_THAT(check(names, false), IsOk()) << "sound alone needs no video VAE";
}

}  // namespace
}  // namespace kinora

// Which file holds which part of a model, in the layout of the files that Lightricks released of LTX-2.5.
#include "engine/weights/component_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/weights/checkpoint.h"
#include "tests/testing/status_matchers.h"
#include "tests/weights/named_files.h"
#include "tests/weights/test_files.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const char kDit[] = "diffusion_models/ltx-2.5-22b-distilled-transformer-bf16.safetensors";
const char kText[] = "text_encoders/gemma4-12b-with-proj-ltx-2.5-bf16.safetensors";
const char kConv[] = "vae/ltx-2.5-video-vae-conv-bf16.safetensors";
const char kDiffusionVae[] = "vae/ltx-2.5-video-vae-bf16.safetensors";
const char kAudio[] = "vae/ltx-2.5-audio-vae-bf16.safetensors";
const char kSpatial[] = "latent_upscale_models/ltx-2.5-latent-spatial-upscaler-x2-bf16-1.0.safetensors";
const char kTemporal[] = "latent_upscale_models/ltx-2.5-latent-temporal-upscaler-x2-bf16-1.0.safetensors";
const char kHead[] = "model_patches/ltx-2.5-duration-head-bf16.safetensors";
const char kLora[] = "loras/ltx-2.5-22b-distilled-lora-450-bf16.safetensors";

// A folder with a file of each part.
class ReleasedFiles : public testing::Test {
 protected:
  ReleasedFiles() {
    WriteNames(File(kDit),
               {"model.diffusion_model.proj_out.weight",
                "model.diffusion_model.video_embeddings_connector.learnable_registers"},
               {{"config", R"({"transformer":{"a":1},"scheduler":{"b":2},"vae":null})"}, {"model_version", "2.5.0"}});
    WriteNames(File(kText),
               {"model.layers.0.post_feedforward_layernorm.weight", "model.embed_tokens.weight", "tokenizer_json",
                "text_embedding_projection.video_aggregate_embed.weight"},
               {{"gemma_config", R"({"gemma_version":"g"})"}});
    WriteNames(File(kConv), {"encoder.conv_in.conv.weight", "decoder.conv_in.conv.weight"},
               {{"config", R"({"vae":{"c":3}})"}, {"model_version", "2.5.0"}});
    WriteNames(File(kAudio), {"audio_vae.decoder.conv_in.conv.weight", "vocoder.vocoder.conv_pre.weight"},
               {{"config", R"({"audio_vae":{"d":4},"vocoder":{"e":5}})"}});
    WriteNames(File(kSpatial), {"initial_conv.weight"}, {{"config", R"({"spatial_upsample":true})"}});
    WriteNames(File(kTemporal), {"initial_conv.weight"},
               {{"config", R"({"spatial_upsample":false,"temporal_upsample":true})"}});
    WriteNames(File(kHead), {"duration_head.mlp_out.weight"},
               {{"config", R"({"transformer":{"cross_attention_dim":9},"duration_head":{"f":6}})"}});
    WriteNames(File(kLora), {"diffusion_model.x.lora_A.weight", "diffusion_model.x.lora_B.weight"});
  }
  std::string File(const std::string& name) const { return folder_.File("ltx-2.5/" + name); }
  std::string Folder() const { return folder_.File("ltx-2.5"); }

  TempFolder folder_;
};

std::vector<std::string> Names(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const ComponentFile& file : checkpoint.files()) {
    names.push_back(std::filesystem::path(file.path).filename().string());
  }
  return names;
}

TEST_F(ReleasedFiles, OfAFolderAreFoundByTheirContent) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {Folder()}}));
  for (const char* component : {"transformer", "connectors", "text_projection", "vae", "audio_vae", "vocoder",
                                "text_encoder", "duration_head", "spatial_upsampler", "temporal_upsampler"}) {
    EXPECT_TRUE(model->HasComponent(component)) << component;
  }
  EXPECT_EQ(model->files().size(), 7u) << "the LoRA is not among them";
  EXPECT_EQ(model->model_version(), "2.5.0");
  EXPECT_EQ(model->config(),
            R"({"audio_vae":{"d":4},"duration_head":{"f":6},"scheduler":{"b":2},"transformer":{"a":1},)"
            R"("vae":{"c":3},"vocoder":{"e":5}})");
  EXPECT_EQ(model->component_configs().at("text_encoder"), R"({"gemma_version":"g"})");
  EXPECT_EQ(model->upsampler_configs().at("spatial_upsampler"), R"({"spatial_upsample":true})");
  EXPECT_EQ(model->upsampler_configs().count("temporal_upsampler"), 1u);
}

TEST_F(ReleasedFiles, GivenOneByOneAreTheSameModel) {
  ModelFiles files;
  for (const char* name : {kDit, kText, kConv, kAudio, kSpatial, kTemporal, kHead}) files.paths.push_back(File(name));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto given, Checkpoint::Open(files));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto found, Checkpoint::Open({.paths = {Folder()}}));
  EXPECT_EQ(given->config(), found->config());
  EXPECT_EQ(given->tensors().size(), found->tensors().size());

  files.paths = {File(kDit), File(kHead)};
  files.text_encoder = File(kText);
  files.video_vae = File(kConv);
  files.audio_vae = File(kAudio);
  files.spatial_upsampler = File(kSpatial);
  files.temporal_upsampler = File(kTemporal);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto named, Checkpoint::Open(files));
  EXPECT_EQ(named->config(), found->config());
  EXPECT_EQ(named->tensors().size(), found->tensors().size());
}

TEST_F(ReleasedFiles, ThatHoldTheSamePartMustBeChosen) {
  const char* const dev = "diffusion_models/ltx-2.5-22b-dev-transformer-bf16.safetensors";
  WriteNames(File(dev), {"model.diffusion_model.proj_out.weight"}, {{"model_version", "2.5.1"}});
  EXPECT_THAT(Checkpoint::Open({.paths = {Folder()}}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("several files hold the transformer"), HasSubstr(kDit), HasSubstr(dev))));
  using Kind = ModelFiles::Kind;
  for (const auto& [kind, name] : {std::pair(Kind::kDev, dev), {Kind::kDistilled, kDit}}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {Folder()}, .kind = kind}));
    EXPECT_EQ(model->FileOf("transformer")->path, File(name));
  }
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {Folder(), File(dev)}}));
  EXPECT_EQ(model->FileOf("transformer")->path, File(dev)) << "a file that is given precedes those of a folder";
  EXPECT_EQ(model->FileOf("connectors")->path, File(kDit)) << "which still gives what the other lacks";
}

TEST_F(ReleasedFiles, OfFormsThatCannotRunAndDiffusionDecodersGiveWay) {
  WriteNames(File("diffusion_models/ltx-2.5-22b-distilled-transformer-nvfp4.safetensors"),
             {"model.diffusion_model.proj_out.weight", "model.diffusion_model.proj_out.weight_scale_2"});
  WriteNames(File(kDiffusionVae), {"encoder.conv_in.conv.weight", "decoder.det_stages.0.0.norm1.weight"},
             {{"config", R"({"vae":{"_class_name":"CausalDiffusionVAE"}})"}});
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {Folder()}}));
  EXPECT_EQ(model->FileOf("transformer")->path, File(kDit));
  EXPECT_EQ(model->FileOf("vae")->path, File(kConv));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto chosen, Checkpoint::Open({.paths = {Folder(), File(kDiffusionVae)}}));
  EXPECT_EQ(chosen->FileOf("vae")->path, File(kDiffusionVae));
  std::filesystem::remove(File(kConv));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto other, Checkpoint::Open({.paths = {Folder()}}));
  EXPECT_EQ(other->FileOf("vae")->path, File(kDiffusionVae));
}

TEST_F(ReleasedFiles, ReplaceThePartsOfASingleFileWhenTheyAreNamed) {
  const std::string whole = folder_.File("whole.safetensors");
  WriteNames(whole, {"model.diffusion_model.proj_out.weight", "vae.decoder.conv_in.conv.weight", "vae.decoder.old"},
             {{"config", R"({"transformer":{"a":1},"vae":{"c":9}})"}, {"model_version", "2.3.0"}});
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {whole}, .video_vae = File(kConv)}));
  EXPECT_EQ(model->config(), R"({"transformer":{"a":1},"vae":{"c":3}})");
  EXPECT_EQ(model->model_version(), "2.3.0");
  EXPECT_EQ(model->Find("vae.decoder.old"), nullptr);
  EXPECT_THAT(Checkpoint::Open({.paths = {whole, File(kConv)}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("config.vae")));
  EXPECT_THAT(Checkpoint::Open({.paths = {whole}, .video_vae = File(kAudio)}),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("video_vae="), HasSubstr("does not hold it"))));
}

TEST_F(ReleasedFiles, ANamedSingleFileGivesOnlyThePartThatItIsNamedAs) {
  const std::string whole = folder_.File("whole.safetensors");
  WriteNames(whole, {"model.diffusion_model.other", "vae.decoder.conv_out.conv.weight"},
             {{"config", R"({"transformer":{"a":7},"vae":{"c":9}})"}});
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {File(kDit)}, .video_vae = whole}));
  EXPECT_EQ(model->Find("transformer.other"), nullptr);
  EXPECT_THAT(Names(*model), ElementsAre(std::filesystem::path(kDit).filename().string(), "whole.safetensors"));
  EXPECT_EQ(model->config(), R"({"scheduler":{"b":2},"transformer":{"a":1},"vae":{"c":9}})");
}

TEST(ModelFolders, HoldASingleFileWithItsTextEncoderInAFolder) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {KINORA_SOURCE_DIR "/models/tiny"}}));
  EXPECT_THAT(Names(*model), UnorderedElementsAre("ltx-2.3-tiny-dev.safetensors", "model.safetensors"));
  EXPECT_EQ(model->tokenizer_model(), KINORA_SOURCE_DIR "/models/tiny/gemma/tokenizer.model");
}

}  // namespace
}  // namespace kinora

#include "engine/weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tests/testing/status_matchers.h"
#include "tests/weights/named_files.h"
#include "tests/weights/test_files.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

std::vector<std::string> Keys(const Checkpoint& checkpoint) {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : checkpoint.tensors()) keys.push_back(key);
  return keys;
}

TEST(ModelFiles, NamesAndPathsAreToldApart) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const ModelFiles files,
      ModelFiles::Parse({"model.safetensors", "/data/a=b/extra.safetensors", "text_encoder=gemma",
                         "distilled_lora=d.safetensors:0.5", "lora=style:s.safetensors", "lora=b:x:y", "kind=dev",
                         "spatial_upsampler=up"}));
  EXPECT_THAT(files.paths, testing::ElementsAre("model.safetensors", "/data/a=b/extra.safetensors"));
  EXPECT_EQ(files.text_encoder, "gemma");
  EXPECT_EQ(files.distilled_lora, "d.safetensors");
  EXPECT_EQ(files.distilled_lora_strength, 0.5);
  ASSERT_EQ(files.loras.size(), 2);
  EXPECT_EQ(files.loras[1].id, "b");
  EXPECT_EQ(files.loras[1].path, "x:y");
  EXPECT_EQ(files.kind, ModelFiles::Kind::kDev);
  EXPECT_EQ(files.spatial_upsampler, "up");
}

TEST(ModelFiles, WrongArgumentsAreNamed) {
  const auto parse = [](std::string argument) { return ModelFiles::Parse({"model", std::move(argument)}); };
  EXPECT_THAT(parse("text_encder=x"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("unknown name text_encder")));
  EXPECT_THAT(parse("kind=fast"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("kind is dev or distilled")));
  EXPECT_THAT(parse("lora=x"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected lora=ID:FILE")));
  EXPECT_THAT(parse("distilled_lora=f:nan"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("strength")));
  EXPECT_THAT(parse("text_encoder="), StatusIs(StatusCode::kInvalidArgument, HasSubstr("a value is missing")));
  EXPECT_THAT(ModelFiles::Parse({"kind=dev"}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no path given")));
  EXPECT_THAT(ModelFiles::Parse({"m", "text_encoder=a", "text_encoder=b"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("given twice")));
}

TEST(Checkpoint, ASingleFileAndADiffusersFolderGiveTheSameKeys) {
  TempFolder folder;
  WriteNames(
      folder.File("single.safetensors"),
      {"model.diffusion_model.patchify_proj.weight", "model.diffusion_model.transformer_blocks.0.attn1.q_norm.weight",
       "model.diffusion_model.video_embeddings_connector.transformer_1d_blocks.0.ff.net.2.bias",
       "text_embedding_projection.aggregate_embed.weight", "vae.decoder.up_blocks.0.res_blocks.0.conv1.conv.weight",
       "vae.decoder.up_blocks.1.conv.conv.weight", "vae.decoder.up_blocks.2.res_blocks.0.conv1.conv.weight",
       "vae.per_channel_statistics.mean-of-means", "audio_vae.decoder.conv_in.conv.weight", "vocoder.ups.0.weight",
       "upsampler_head.out.weight"},
      {{"config", "{\"transformer\":{}}"}, {"model_version", "2.3.0"}});
  const std::string diffusers = folder.File("diffusers");
  WriteNames(diffusers + "/transformer/diffusion_pytorch_model.safetensors",
             {"proj_in.weight", "transformer_blocks.0.attn1.norm_q.weight"});
  WriteNames(diffusers + "/connectors/diffusion_pytorch_model.safetensors",
             {"video_connector.transformer_blocks.0.ff.net.2.bias", "text_proj_in.weight"});
  WriteNames(diffusers + "/vae/diffusion_pytorch_model.safetensors",
             {"decoder.mid_block.resnets.0.conv1.conv.weight", "decoder.up_blocks.0.upsamplers.0.conv.conv.weight",
              "decoder.up_blocks.0.resnets.0.conv1.conv.weight", "latents_mean"});
  WriteNames(diffusers + "/audio_vae/diffusion_pytorch_model.safetensors", {"decoder.conv_in.conv.weight"});
  WriteNames(diffusers + "/vocoder/diffusion_pytorch_model.safetensors", {"upsamplers.0.weight"});
  for (const char* part : {"transformer", "connectors", "vae", "audio_vae", "vocoder"}) {
    folder.Write(std::string("diffusers/") + part + "/config.json", "{}");
  }
  folder.Write("diffusers/scheduler/scheduler_config.json", "{\"shift\":1}");

  KINORA_ASSERT_OK_AND_ASSIGN(const auto single, Checkpoint::Open({.paths = {folder.File("single.safetensors")}}));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto many, Checkpoint::Open({.paths = {diffusers}}));
  EXPECT_EQ(Keys(*single), Keys(*many));
  EXPECT_EQ(single->tensors().size(), 10);
  EXPECT_EQ(single->config(), "{\"transformer\":{}}");
  EXPECT_EQ(single->model_version(), "2.3.0");
  EXPECT_EQ(many->component_configs().at("scheduler"), "{\"shift\":1}");
  EXPECT_TRUE(many->HasComponent("vocoder"));
  EXPECT_FALSE(many->HasComponent("text_encoder"));
  EXPECT_THAT(many->Describe("transformer.patchify_proj.weight"),
              AllOf(HasSubstr("transformer/diffusion"), HasSubstr("tensor proj_in.weight")));
}

TEST(Checkpoint, SplitFilesAddUpAndTheirConfigsMerge) {
  TempFolder folder;
  WriteNames(folder.File("dit"), {"model.diffusion_model.proj_out.weight"},
             {{"config", R"({"transformer":{"num_layers":2}})"}});
  WriteNames(folder.File("vae"), {"decoder.conv_in.conv.weight", "per_channel_statistics.std-of-means"},
             {{"config", R"({"vae":{"a":1}})"}});
  KINORA_ASSERT_OK_AND_ASSIGN(const auto both, Checkpoint::Open({.paths = {folder.File("dit"), folder.File("vae")}}));
  EXPECT_THAT(Keys(*both), testing::ElementsAre("transformer.proj_out.weight", "vae.decoder.conv_in.conv.weight",
                                                "vae.per_channel_statistics.std-of-means"));
  EXPECT_EQ(both->config(), R"({"transformer":{"num_layers":2},"vae":{"a":1}})");

  WriteNames(folder.File("other"), {"vae.decoder.conv_out.conv.weight"}, {{"config", R"({"vae":{"a":2}})"}});
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("vae"), folder.File("other")}}),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("other"), HasSubstr("config.vae"))));
  WriteNames(folder.File("again"), {"vae.decoder.conv_in.conv.weight"});
  EXPECT_THAT(
      Checkpoint::Open({.paths = {folder.File("vae"), folder.File("again")}}),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("again"), HasSubstr("decoder.conv_in.conv.weight"))));
}

TEST(Checkpoint, ConfigsThatAreNotJsonAreRefused) {
  TempFolder folder;
  WriteNames(folder.File("c"), {"vae.decoder.x"}, {{"config", "{\"vae\""}});
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("c")}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("metadata config: not valid JSON")));
}

TEST(Checkpoint, ShardedTextEncodersAndTheirTokenizerAreFound) {
  TempFolder folder;
  WriteNames(folder.File("gemma/model-1.safetensors"), {"language_model.model.embed_tokens.weight", "vision_tower.x"});
  WriteNames(folder.File("gemma/model-2.safetensors"), {"language_model.model.norm.weight"});
  folder.Write(
      "gemma/model.safetensors.index.json",
      R"({"weight_map":{"language_model.model.embed_tokens.weight":"model-1.safetensors","vision_tower.x":"model-1.safetensors",
                   "language_model.model.norm.weight":"model-2.safetensors"}})");
  folder.Write("gemma/config.json", "{\"model_type\":\"gemma3\"}");
  folder.Write("tokenizer/tokenizer.model", "x");
  WriteNames(folder.File("dit"), {"model.diffusion_model.proj_out.weight"});
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model,
                              Checkpoint::Open({.paths = {folder.File("dit")}, .text_encoder = folder.File("gemma")}));
  EXPECT_THAT(Keys(*model), testing::ElementsAre("text_encoder.embed_tokens.weight", "text_encoder.norm.weight",
                                                 "text_encoder.vision_tower.x", "transformer.proj_out.weight"));
  EXPECT_EQ(model->tokenizer_model(), folder.File("tokenizer/tokenizer.model"));
  const auto tokenizer = [&] {
    return Checkpoint::Open({.paths = {folder.File("dit")}, .text_encoder = folder.File("gemma")})
        .value()
        ->tokenizer_model();
  };
  folder.Write("gemma/tokenizer.json", "{}");
  EXPECT_EQ(tokenizer(), folder.File("tokenizer/tokenizer.model"));  // rather than a tokenizer.json
  std::filesystem::remove(folder.File("tokenizer/tokenizer.model"));
  EXPECT_EQ(tokenizer(), folder.File("gemma/tokenizer.json"));
  EXPECT_EQ(model->component_configs().at("text_encoder"), "{\"model_type\":\"gemma3\"}");
}

TEST(Checkpoint, WhatIsNotAModelIsRefused) {
  TempFolder folder;
  folder.Write("empty/readme.txt", "hello");
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("empty")}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a diffusers folder")));
  folder.Write("damaged/a.safetensors", "");
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("damaged")}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(folder.File("damaged/a.safetensors"))));
  WriteNames(folder.File("other"), {"model.embedding.weight"});
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("other")}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no tensor of an LTX-2 model")));
  WriteNames(folder.File("lora"), {"diffusion_model.x.lora_A.weight"});
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("lora")}}),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("a LoRA"), HasSubstr("lora=ID:FILE"))));
  folder.Write("broken/transformer/config.json", "{}");
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("broken")}}),
              StatusIs(StatusCode::kNotFound, HasSubstr("diffusion_pytorch_model.safetensors")));
  EXPECT_THAT(Checkpoint::Open({.paths = {folder.File("nothing")}}),
              StatusIs(StatusCode::kNotFound, HasSubstr("nothing")));
}

TEST(Checkpoint, TheCommittedTinyModelOpens) {
  const std::string tiny = KINORA_SOURCE_DIR "/models/tiny/";
  KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Checkpoint::Open({.paths = {tiny + "ltx-2.3-tiny-dev.safetensors"},
                                                                  .text_encoder = tiny + "gemma"}));
  for (const char* component :
       {"transformer", "connectors", "text_projection", "vae", "audio_vae", "vocoder", "text_encoder"}) {
    EXPECT_TRUE(model->HasComponent(component)) << component;
  }
  EXPECT_EQ(model->tokenizer_model(), tiny + "gemma/tokenizer.model");
}

}  // namespace
}  // namespace kinora

// LoRA files that are accepted, and the errors for others.
#include "engine/weights/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/status_matchers.h"
#include "tests/weights/test_files.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

struct Named {
  std::string name;
  Shape shape;
};

class LoraFiles : public testing::Test {
 protected:
  LoraFiles() {
    Write("model.safetensors",
          {{"model.diffusion_model.transformer_blocks.3.attn1.to_q.weight", {6, 4}},
           {"model.diffusion_model.transformer_blocks.3.attn1.q_norm.weight", {6}},
           {"model.diffusion_model.adaln_single.linear.weight", {8, 4}},
           {"model.diffusion_model.video_embeddings_connector.transformer_1d_blocks.0.ff.net.2.weight", {4, 4}},
           {"text_embedding_projection.video_aggregate_embed.weight", {4, 10}}});
    model_ = *Checkpoint::Open({.paths = {folder_.File("model.safetensors")}});
  }

  // Writes a file in which every value is 1.
  std::string Write(const std::string& file, const std::vector<Named>& tensors,
                    const std::map<std::string, std::string>& metadata = {}) {
    std::vector<std::vector<float>> values;
    values.reserve(tensors.size());
    std::vector<std::pair<std::string, Tensor>> views;
    views.reserve(tensors.size());
    for (const Named& tensor : tensors) {
      values.emplace_back(tensor.shape.elements(), 1.0f);
      views.emplace_back(tensor.name, Tensor(DType::kF32, tensor.shape, values.back().data()));
    }
    EXPECT_THAT(WriteSafetensors(folder_.File(file), views, metadata), IsOk());
    return folder_.File(file);
  }
  // Returns the tensors of a rank-2 LoRA for a module [out, in].
  static std::vector<Named> Module(const std::string& module, int64_t out, int64_t in) {
    return {{module + ".lora_A.weight", {2, in}}, {module + ".lora_B.weight", {out, 2}}};
  }
  absl::Status Opened(const std::vector<Named>& tensors, const std::map<std::string, std::string>& metadata = {}) {
    return Lora::Open(Write("lora.safetensors", tensors, metadata), *model_).status();
  }

  TempFolder folder_;
  std::shared_ptr<const Checkpoint> model_;
};

TEST_F(LoraFiles, BothLayoutsNameTheSameTensors) {
  const struct {
    const char *lightricks, *diffusers, *tensor;
    int64_t out, in;
    bool text;
  } modules[] = {
      {"diffusion_model.transformer_blocks.3.attn1.to_q", "transformer.transformer_blocks.3.attn1.to_q",
       "transformer.transformer_blocks.3.attn1.to_q.weight", 6, 4, false},
      {"diffusion_model.adaln_single.linear", "transformer.time_embed.linear", "transformer.adaln_single.linear.weight",
       8, 4, false},
      {"diffusion_model.video_embeddings_connector.transformer_1d_blocks.0.ff.net.2",
       "connectors.video_connector.transformer_blocks.0.ff.net.2",
       "connectors.video_embeddings_connector.transformer_1d_blocks.0.ff.net.2.weight", 4, 4, true},
      {"text_embedding_projection.video_aggregate_embed", "connectors.video_text_proj_in",
       "text_projection.video_aggregate_embed.weight", 4, 10, true},
  };
  for (const auto& module : modules) {
    for (const char* name : {module.lightricks, module.diffusers}) {
      auto lora = Lora::Open(Write("lora.safetensors", Module(name, module.out, module.in)), *model_);
      ASSERT_THAT(lora.status(), IsOk()) << name;
      WeightDeltas deltas;
      (*lora)->AddTo(0.5f, deltas);
      ASSERT_EQ(deltas.size(), 1) << name;
      EXPECT_EQ(deltas.begin()->first, module.tensor);
      const LowRankTerm& term = deltas.begin()->second.at(0);
      EXPECT_EQ(term.rows(), module.out);
      EXPECT_EQ(term.columns(), module.in);
      EXPECT_EQ(term.strength, 0.5f);
      EXPECT_EQ((*lora)->changes_text(), module.text) << name;
    }
  }
}

TEST_F(LoraFiles, WhatDoesNotFitIsRefusedByName) {
  const std::string q = "diffusion_model.transformer_blocks.3.attn1.to_q";
  const struct {
    std::vector<Named> tensors;
    const char* said;
  } wrong[] = {
      {{{q + ".lora_A.weight", {2, 4}}, {q + ".lora_B.weight", {6, 3}}}, "their ranks differ, 2 and 3"},
      {{{q + ".lora_A.weight", {2, 4}}}, "its module has no lora_B.weight"},
      {{{q + ".lora_B.weight", {6, 2}}}, "its module has no lora_A.weight"},
      {Module(q, 7, 4), "attn1.to_q.weight is [6, 4]; the LoRA was made for another model"},
      {Module(q, 6, 5), "attn1.to_q.weight is [6, 4]"},
      {Module("diffusion_model.transformer_blocks.4.attn1.to_q", 6, 4),
       "this model has no module for it (transformer.transformer_blocks.4.attn1.to_q.weight)"},
      {Module("diffusion_model.transformer_blocks.3.attn1.q_norm", 6, 1), "is no weight of a linear layer"},
      {Module("unet.to_q", 6, 4), "names of a LoRA begin with diffusion_model."},
      {{{q + ".weight", {6, 4}}}, "neither lora_A.weight nor lora_B.weight"},
      {{{q + ".lora_A.weight", {8}}, {q + ".lora_B.weight", {6, 2}}}, "F32 [8], a matrix is needed"},
      {{{q + ".alpha", {}}}, "no LoRA"},
  };
  for (const auto& [tensors, said] : wrong) {
    EXPECT_THAT(Opened(tensors),
                StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("lora.safetensors"), HasSubstr(said))));
  }
}

TEST_F(LoraFiles, AModuleInBothLayoutsIsRefused) {
  std::vector<Named> twice = Module("diffusion_model.adaln_single.linear", 8, 4);
  for (const Named& tensor : Module("transformer.time_embed.linear", 8, 4)) twice.push_back(tensor);
  EXPECT_THAT(Opened(twice), StatusIs(StatusCode::kInvalidArgument, HasSubstr("the module is there already, as")));
}

TEST_F(LoraFiles, AlphaAndMagnitudesAreNotRead) {
  std::vector<Named> tensors = Module("diffusion_model.adaln_single.linear", 8, 4);
  tensors.push_back({"diffusion_model.adaln_single.linear.alpha", {}});
  tensors.push_back({"diffusion_model.adaln_single.linear.dora_scale", {8, 1}});
  EXPECT_THAT(Opened(tensors), IsOk());
}

TEST_F(LoraFiles, ALoraForReferenceVideosIsRefusedWithASentence) {
  for (const char* key : {"reference_downscale_factor", "reference_temporal_scale_factor"}) {
    EXPECT_THAT(Opened(Module("diffusion_model.adaln_single.linear", 8, 4), {{key, "2"}}),
                StatusIs(StatusCode::kUnimplemented, AllOf(HasSubstr(key), HasSubstr("IC-LoRA"))));
  }
}

TEST_F(LoraFiles, AnIdIsGivenOnceAndErrorsNameIt) {
  const std::string path = Write("lora.safetensors", Module("diffusion_model.adaln_single.linear", 8, 4));
  EXPECT_EQ(OpenLoras({.loras = {{"a", path}, {"b", path}}}, *model_)->size(), 2);
  EXPECT_THAT(OpenLoras({.loras = {{"a", path}, {"a", path}}}, *model_).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("lora a: given twice")));
  EXPECT_THAT(OpenLoras({.loras = {{"a", folder_.File("none")}}}, *model_).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("lora a: ")));
}

}  // namespace
}  // namespace kinora

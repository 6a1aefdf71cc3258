#include "engine/weights/key_tables.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/weights/key_list.h"

namespace kinora {
namespace {

class KeyTables : public testing::TestWithParam<std::pair<const char*, size_t>> {};

TEST_P(KeyTables, NameEveryTensorOfAReleasedModelInBothLayoutsAndBack) {
  const std::vector<NamedTensor> tensors = ReadKeyList(GetParam().first);
  ASSERT_EQ(tensors.size(), GetParam().second);
  std::set<std::string> canonical_names;
  for (const NamedTensor& tensor : tensors) {
    const auto canonical = CanonicalFromSingleFile(tensor.single_file);
    ASSERT_TRUE(canonical) << tensor.single_file;
    EXPECT_TRUE(canonical_names.insert(*canonical).second) << *canonical;
    EXPECT_EQ(CanonicalFromDiffusers(tensor.component, tensor.diffusers), *canonical);
    EXPECT_EQ(SingleFileFromCanonical(*canonical), tensor.single_file);
    EXPECT_EQ(DiffusersFromCanonical(*canonical), std::pair(tensor.component, tensor.diffusers));
  }
}

INSTANTIATE_TEST_SUITE_P(Releases, KeyTables, testing::Values(std::pair("2.0", 4049u), std::pair("2.3", 5947u)),
                         [](const auto& info) { return info.index == 0 ? "Ltx20" : "Ltx23"; });

TEST(KeyTables, TheEncodersLastBlockMovesWithItsNumberOfLevels) {
  const std::string canonical = CanonicalFromDiffusers("vae", "encoder.mid_block.resnets.1.conv1.conv.bias", 3);
  EXPECT_EQ(canonical, "vae.encoder.down_blocks.6.res_blocks.1.conv1.conv.bias");
  EXPECT_EQ(DiffusersFromCanonical(canonical, 3).second, "encoder.mid_block.resnets.1.conv1.conv.bias");
}

TEST(KeyTables, TextEncoderKeysOfEachPublishedNamingMeet) {
  for (const char* prefix : {"language_model.model.", "model.language_model.", "model."}) {
    EXPECT_EQ(CanonicalFromTextEncoder(std::string(prefix) + "layers.3.self_attn.q_proj.weight"),
              "text_encoder.layers.3.self_attn.q_proj.weight");
    EXPECT_EQ(CanonicalFromTextEncoder(std::string(prefix) + "embed_tokens.weight"),
              "text_encoder.embed_tokens.weight");
  }
  for (const char* unread : {"vision_tower.encoder.x", "model.vision_tower.encoder.x", "multi_modal_projector.y",
                             "lm_head.weight", "model.multi_modal_projector.y", "language_model.lm_head.weight",
                             "vision_model.z", "audio_projector.z", "model.vision_embedder.z", "model.embed_vision.z",
                             "model.embed_audio.z", "tokenizer_json", "hf_asset__tokenizer_config.json"}) {
    EXPECT_TRUE(IsKnownUnread(CanonicalFromTextEncoder(unread))) << unread;
  }
  EXPECT_FALSE(IsKnownUnread("text_encoder.layers.0.mlp.up_proj.weight"));
  EXPECT_FALSE(IsKnownUnread(CanonicalFromTextEncoder("model.layers.0.layer_scalar")));
}

TEST(KeyTables, WhatDecodersAndStatisticsNeedIsNotAmongTheUnread) {
  for (const char* read : {"vae.decoder.conv_in.conv.weight", "vae.per_channel_statistics.mean-of-means",
                           "vae.per_channel_statistics.std-of-means", "audio_vae.per_channel_statistics.std-of-means",
                           "vocoder.mel_stft.stft_fn.forward_basis", "vocoder.mel_stft.mel_basis"}) {
    EXPECT_FALSE(IsKnownUnread(read)) << read;
  }
  for (const char* unread : {"vae.encoder.conv_in.conv.weight", "vae.per_channel_statistics.mean-of-stds",
                             "vae.per_channel_statistics.mean-of-stds_over_std-of-means",
                             "vae.per_channel_statistics.channel", "vocoder.mel_stft.stft_fn.inverse_basis"}) {
    EXPECT_TRUE(IsKnownUnread(unread)) << unread;
  }
}

TEST(KeyTables, TheDurationHeadIsAComponent) {
  EXPECT_EQ(CanonicalFromSingleFile("duration_head.mlp_out.weight"), "duration_head.mlp_out.weight");
}

TEST(KeyTables, AKeyOfNoKnownComponentHasNoCanonicalName) {
  EXPECT_EQ(CanonicalFromSingleFile("caption_head.mlp.weight"), std::nullopt);
  EXPECT_EQ(CanonicalFromSingleFile(""), std::nullopt);
}

TEST(KeyTables, IndicesOfAForeignFileDoNotOverflow) {
  EXPECT_EQ(CanonicalFromDiffusers("vae", "decoder.up_blocks.99999999999.resnets.0.x"),
            "vae.decoder.up_blocks.99999999999.resnets.0.x");
  EXPECT_EQ(CanonicalFromDiffusers("vae", "decoder.up_blocks.2147483647.resnets.0.x"),
            "vae.decoder.up_blocks.2147483647.resnets.0.x");
}

}  // namespace
}  // namespace kinora

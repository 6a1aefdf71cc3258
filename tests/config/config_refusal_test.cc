// Every value that must be rejected, with its field named, before anything is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/strings.h"
#include "tests/config/config_files.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using absl::StatusCode;
using nlohmann::json;
using testing::HasSubstr;

struct Change {
  std::string file;     // argument of ReadConfigFile
  std::string pointer;  // JSON pointer to the value to overwrite
  std::string value;    // JSON; empty erases the value
  std::string message;
};
void PrintTo(const Change& c, std::ostream* out) { *out << c.file << c.pointer << " = " << c.value; }

absl::Status Rejection(const Change& change) {
  json config = ReadConfigFile(change.file);
  const json::json_pointer pointer(change.pointer);
  if (change.value.empty()) {
    config[pointer.parent_pointer()].erase(pointer.back());
  } else {
    config[pointer] = json::parse(change.value);
  }
  absl::StatusOr<ModelConfig> model = ParseConfig(config);
  return model.ok() ? ValidateModelConfig(*model) : model.status();
}

class Refused : public testing::TestWithParam<Change> {};

TEST_P(Refused, IsNamed) {
  EXPECT_THAT(Rejection(GetParam()), StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

const std::string k20 = "lightricks_2.0", k23 = "lightricks_2.3", kD20 = "diffusers_2.0", kD23 = "diffusers_2.3";

INSTANTIATE_TEST_SUITE_P(
    Bounds, Refused,
    testing::Values(
        Change{k23, "/config/transformer/num_layers", "1000000000",
               "config.transformer.num_layers: 1000000000 must be"},
        Change{k23, "/config/transformer/num_attention_heads", "0",
               "config.transformer.num_attention_heads: 0 must be"},
        Change{k23, "/config/transformer/num_attention_heads", "-3", "num_attention_heads: -3 must be"},
        Change{k23, "/config/transformer/num_attention_heads", "3.5", "num_attention_heads: 3.5 must be"},
        Change{k23, "/config/transformer/num_attention_heads", "\"32\"", "num_attention_heads: \"32\" must be"},
        Change{k23, "/config/transformer/num_attention_heads", "1e300", "num_attention_heads: 1e+300 must be"},
        Change{k23, "/config/transformer/attention_head_dim", "18446744073709551615", "attention_head_dim"},
        Change{k23, "/config/transformer/attention_head_dim", "100", "head size 100 is not a multiple of 8"},
        Change{k23, "/config/transformer/audio_num_attention_heads", "16", "num_attention_heads is 32, but audio_num"},
        Change{k23, "/config/transformer/cross_attention_dim", "2048", "video connector width is 4096"},
        Change{k23, "/config/transformer/positional_embedding_max_pos", "[20]", "needs 3 maximal positions"},
        Change{k23, "/config/transformer/positional_embedding_max_pos", "[0,1,1]",
               "must be a list of numbers in 1..1e+06"},
        Change{k23, "/config/transformer", "[]", "config.transformer: not an object"},
        Change{k23, "/config/vae/decoder_base_channels", "100000000", "decoder_base_channels"},
        Change{k23, "/config/vae/decoder_blocks", "[]", "config.vae.decoder_blocks: must be a list of 1 to 64"},
        Change{k23, "/config/vae/decoder_blocks/0", "7", "each entry must be [name, parameters]"},
        Change{k23, "/config/vae/decoder_blocks/0/1/num_layers", "0", "decoder_blocks.res_x.num_layers: 0"},
        Change{k23, "/config/vae/decoder_blocks/1/1/multiplier", "-2", "compress_space.multiplier: -2"},
        Change{k23, "/config/audio_vae/model/params/ddconfig/ch_mult", "[]", "ch_mult: [] must be a list"},
        Change{k23, "/config/audio_vae/model/params/ddconfig/ch_mult", "[1,2]", "levels of the audio VAE is 2"},
        Change{k23, "/config/audio_vae/model/params/ddconfig/mel_bins", "60", "packed latent channels is 120"},
        Change{k23, "/config/vocoder/vocoder/upsample_rates", "[5,2,2,2,2]", "differ in number"},
        Change{k23, "/config/vocoder/vocoder/upsample_rates/0", "6", "kernel size 11 does not suit upsampling by 6"},
        Change{k23, "/config/vocoder/vocoder/upsample_initial_channel", "100", "100 channels cannot be halved 6 times"},
        Change{k23, "/config/vocoder/bwe/output_sampling_rate", "44100", "44100 Hz is no multiple of 16000"},
        Change{k23, "/config/vocoder/bwe/hop_length", "160", "bandwidth extension upsampling is 240"},
        Change{k20, "/config/transformer/caption_channels", "4096", "text encoder's width is 4096"},
        Change{kD23, "/transformer/num_layers", "1000000000", "transformer.num_layers: 1000000000"},
        Change{kD23, "/transformer/num_attention_heads", "0", "transformer.num_attention_heads: 0"},
        Change{kD23, "/vae/decoder_layers_per_block", "[4,6]", "vae.decoder_layers_per_block: needs one entry more"},
        Change{kD23, "/vae/decoder_block_out_channels", "[256,512,512,999]", "upsample_factor must divide it"},
        Change{kD23, "/vae/upsample_residual", "[true]", "vae.upsample_residual"},
        Change{kD23, "/scheduler/shift_terminal", "2", "scheduler.shift_terminal: 2 must be"}));

// Numbers that would otherwise produce NaN pictures or go unnoticed, each with the allowed values.
INSTANTIATE_TEST_SUITE_P(
    Numbers, Refused,
    testing::Values(
        Change{k23, "/config/transformer/timestep_scale_multiplier", "1e308",
               "config.transformer.timestep_scale_multiplier: 1e+308 must be a number in 0.001..1e+06"},
        Change{k23, "/config/transformer/av_ca_timestep_scale_multiplier", "-1000", "-1000 must be a number in 0.001"},
        Change{k23, "/config/transformer/norm_eps", "0", "norm_eps: 0 must be a number in 1e-12..1"},
        Change{k23, "/config/transformer/norm_eps", "-1e-6", "norm_eps: -1e-06 must be a number"},
        Change{k23, "/config/transformer/norm_eps", "1e308", "norm_eps: 1e+308 must be a number"},
        Change{k23, "/config/transformer/norm_eps", "\"1e-6\"", "norm_eps: \"1e-6\" must be a number"},
        Change{k23, "/config/transformer/positional_embedding_theta", "0", "theta: 0 must be a number in 1..1e+09"},
        Change{k23, "/config/transformer/positional_embedding_theta", "1e300", "theta: 1e+300 must be a number"},
        Change{k23, "/config/transformer/positional_embedding_max_pos", "[20,2048,1e300]",
               "positional_embedding_max_pos: [20,2048,1e+300] must be a list of numbers in 1..1e+06"},
        Change{k23, "/config/transformer/positional_embedding_max_pos", "[20,2048,8]",
               "leaves no room for a latent cell"},
        Change{k23, "/config/transformer/audio_positional_embedding_max_pos", "[1e18]", "audio_positional_embedding"},
        Change{k23, "/config/transformer/connector_positional_embedding_max_pos", "[0]", "connector_positional"},
        Change{kD23, "/transformer/timestep_scale_multiplier", "1e308",
               "transformer.timestep_scale_multiplier: 1e+308"},
        Change{kD23, "/transformer/cross_attn_timestep_scale_multiplier", "0",
               "cross_attn_timestep_scale_multiplier: 0"},
        Change{kD23, "/transformer/norm_eps", "1e308", "transformer.norm_eps: 1e+308"},
        Change{kD23, "/transformer/rope_theta", "-10000", "transformer.rope_theta: -10000"},
        Change{kD23, "/transformer/pos_embed_max_pos", "1e30", "transformer.pos_embed_max_pos: 1e+30"},
        Change{kD23, "/transformer/base_width", "1e12", "transformer.base_width: 1000000000000.0 must"},
        Change{kD23, "/connectors/rope_theta", "0", "connectors.rope_theta: 0"},
        Change{kD23, "/connectors/connector_rope_base_seq_len", "-4096", "connector_rope_base_seq_len: -4096"},
        Change{kD23, "/scheduler/base_shift", "1e308", "scheduler.base_shift: 1e+308 must be a number in -10..10"},
        Change{kD23, "/scheduler/max_shift", "-300", "scheduler.max_shift: -300"},
        Change{kD23, "/scheduler/shift_terminal", "0", "scheduler.shift_terminal: 0 must be"},
        Change{kD20, "/vocoder/leaky_relu_negative_slope", "-3", "vocoder.leaky_relu_negative_slope: -3"}));

INSTANTIATE_TEST_SUITE_P(
    Maths, Refused,
    testing::Values(
        Change{k23, "/config/transformer/qk_norm", "\"layer_norm\"",
               "qk_norm: \"layer_norm\" is not supported, only \"rms_norm\""},
        Change{k23, "/config/transformer/activation_fn", "\"geglu\"", "config.transformer.activation_fn"},
        Change{k23, "/config/transformer/norm_elementwise_affine", "true", "norm_elementwise_affine"},
        Change{k23, "/config/transformer/use_middle_indices_grid", "false", "use_middle_indices_grid"},
        Change{k23, "/config/transformer/share_ff", "true", "share_ff"},
        Change{k23, "/config/transformer/rope_type", "\"yarn\"", "rope_type: \"yarn\" is not supported"},
        Change{k23, "/config/transformer/rope_type", "\"interleaved\"", "interleaved is not supported"},
        Change{k23, "/config/transformer/frequencies_precision", "\"float16\"", "frequencies_precision: \"float16\""},
        Change{k23, "/config/transformer/num_vector_embeds", "5", "num_vector_embeds"},
        Change{k23, "/config/transformer/caption_proj_input_norm", "true",
               "caption_proj_input_norm: true is not supported"},
        Change{k23, "/config/transformer/caption_proj_input_norm", "", "caption_proj_input_norm: is missing"},
        Change{k23, "/config/transformer/text_encoder_norm_type", "\"other\"", "text_encoder_norm_type"},
        Change{k23, "/config/vae/_class_name", "\"AnotherVAE\"", "config.vae._class_name: \"AnotherVAE\""},
        Change{k23, "/config/vae/timestep_conditioning", "true", "config.vae.timestep_conditioning"},
        Change{k23, "/config/vae/timestep_conditioning", "", "which its absence means"},
        Change{k23, "/config/vae/norm_layer", "\"group_norm\"", "config.vae.norm_layer"},
        Change{k23, "/config/vae/spatial_padding_mode", "\"circular\"", "spatial_padding_mode: \"circular\""},
        Change{k23, "/config/vae/decoder_blocks/0/0", "\"attn_res_x\"", "attn_res_x is not supported"},
        Change{k23, "/config/audio_vae/model/params/ddconfig/norm_type", "\"group\"", "ddconfig.norm_type"},
        Change{k23, "/config/audio_vae/model/params/ddconfig/causality_axis", "\"width\"", "ddconfig.causality_axis"},
        Change{k23, "/config/audio_vae/model/params/ddconfig/mid_block_add_attention", "",
               "mid_block_add_attention: true (which its"},
        Change{k23, "/config/audio_vae/model/params/ddconfig/attn_resolutions", "[64]", "attn_resolutions"},
        Change{k23, "/config/vocoder/bwe/activation", "\"snake\"", "config.vocoder.bwe.activation: \"snake\""},
        Change{k23, "/config/vocoder/vocoder/resblock", "\"2\"", "config.vocoder.vocoder.resblock"},
        Change{k20, "/config/vocoder/stereo", "false", "config.vocoder.stereo"},
        Change{kD20, "/transformer/qk_norm", "\"rms_norm\"", "transformer.qk_norm"},
        Change{kD20, "/transformer/patch_size", "2", "transformer.patch_size: 2 is not supported, only 1"},
        Change{kD23, "/transformer/audio_gated_attn", "false", "transformer.audio_gated_attn: must equal gated_attn"},
        Change{kD23, "/transformer/rope_type", "", "rope_type interleaved"},
        Change{kD23, "/transformer/vae_scale_factors", "[4,32,32]", "transformer.vae_scale_factors: [4,32,32]"},
        Change{kD23, "/transformer/audio_hop_length", "128",
               "transformer.audio_hop_length: 128, but the audio VAE's is 160"},
        Change{kD23, "/connectors/causal_temporal_positioning", "true", "connectors.causal_temporal_positioning"},
        Change{kD23, "/connectors/video_hidden_dim", "2048", "connectors.video_hidden_dim: 2048, but"},
        Change{kD23, "/vae/timestep_conditioning", "true", "vae.timestep_conditioning"},
        Change{kD23, "/vae/decoder_inject_noise", "true", "vae.decoder_inject_noise"},
        Change{kD23, "/vae/upsample_type", "[\"a\",\"b\",\"c\",\"d\"]", "vae.upsample_type"},
        Change{kD23, "/vocoder/act_fn", "\"relu\"", "vocoder.act_fn: \"relu\""},
        Change{kD23, "/vocoder/antialias", "false", "vocoder.antialias"},
        Change{kD23, "/vocoder/window_length", "256", "vocoder.window_length: 256, but filter_length is 512"},
        Change{kD23, "/scheduler/time_shift_type", "\"linear\"", "scheduler.time_shift_type"}));

TEST(GenerationSection, WhatAModelRecommendsReplacesTheReleasedDefaults) {
  json config = ReadConfigFile(k23);
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig silent, ParseConfig(config));
  EXPECT_EQ(silent.generation, GenerationConfig());
  config["config"]["generation"] = {{"width", 128},
                                    {"height", 96},
                                    {"num_frames", 25},
                                    {"trained_shapes", {{128, 96, 25}, {64, 64, 9}}},
                                    {"frame_rate", 12.5},
                                    {"negative_prompt", ""},
                                    {"num_inference_steps", 20},
                                    {"guidance_scale", 4.0},
                                    {"stg_scale", 0.0},
                                    {"modality_scale", 1.0},
                                    {"guidance_rescale", 0.5},
                                    {"audio_guidance_scale", 5.0}};
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig own, ParseConfig(config));
  const GenerationConfig expected{.trained_shapes = {{128, 96, 25}, {64, 64, 9}},
                                  .width = 128,
                                  .height = 96,
                                  .num_frames = 25,
                                  .frame_rate = 12.5,
                                  .num_inference_steps = 20,
                                  .negative_prompt = "",
                                  .video = {.cfg_scale = 4, .stg_scale = 0, .modality_scale = 1, .rescale = 0.5},
                                  .audio = {.cfg_scale = 5, .stg_scale = 1, .modality_scale = 3, .rescale = 0.7}};
  EXPECT_EQ(own.generation, expected);
}

TEST(GenerationSection, SizesOffTheGridAndAbsurdScalesAreRefusedByName) {
  for (const auto& [key, value, found] :
       {std::tuple{"width", json(100), "config.generation.width: 100 is not a multiple of 32"},
        std::tuple{"num_frames", json(24), "config.generation.num_frames: 24 is not a multiple of 8, plus 1"},
        std::tuple{"frame_rate", json(0), "config.generation.frame_rate"},
        std::tuple{"trained_shapes", json(128), "config.generation.trained_shapes: a list of at most 64"},
        std::tuple{"trained_shapes", json{{128, 100, 25}}, "config.generation.trained_shapes: [128,100,25] is no"},
        std::tuple{"trained_shapes", json{{128, 96, 24}}, "config.generation.trained_shapes"},
        std::tuple{"trained_shapes", json{{128, 96}}, "config.generation.trained_shapes"},
        std::tuple{"trained_shapes", json{{128, 96, "x"}}, "config.generation.trained_shapes"},
        std::tuple{"trained_shapes", json{{1 << 20, 96, 25}}, "config.generation.trained_shapes"},
        std::tuple{"guidance_scale", json(1e9), "config.generation.guidance_scale"},
        std::tuple{"guidance_rescale", json(1.5), "config.generation.guidance_rescale"},
        std::tuple{"num_inference_steps", json(1000), "config.generation.num_inference_steps"}}) {
    json config = ReadConfigFile(k23);
    config["config"]["generation"][key] = value;
    EXPECT_THAT(ParseConfig(config), StatusIs(StatusCode::kInvalidArgument, HasSubstr(found)));
  }
}

TEST(Refusals, SeveralProblemsAreListedTogether) {
  json config = ReadConfigFile(k23);
  config["config"]["transformer"]["num_layers"] = 0;
  config["config"]["vae"]["norm_layer"] = "group_norm";
  config["config"]["vocoder"]["bwe"]["stereo"] = false;
  const std::string message(ParseConfig(config).status().message());
  EXPECT_THAT(message, testing::AllOf(HasSubstr("num_layers"), HasSubstr("norm_layer"), HasSubstr("bwe.stereo")));
}

TEST(Refusals, TextThatIsNotJsonOrTooDeepNeverThrows) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("nul"), std::string(1'000'000, '['),
        std::string("{\"transformer\":\"\xff\"}"), std::string("{\"a\":1e999}")}) {
    EXPECT_THAT(ParseLightricksConfig(text, ""), StatusIs(StatusCode::kInvalidArgument));
    EXPECT_THAT(ParseGemmaConfig(text), StatusIs(StatusCode::kInvalidArgument));
    EXPECT_THAT(ParseDiffusersConfigs({{"transformer", text}}), StatusIs(StatusCode::kInvalidArgument));
  }
}

TEST(Refusals, TextEncodersOfAnotherKindAreNamed) {
  const auto parse = [](const std::string& fields) {
    return ParseGemmaConfig("{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":6" + fields + "}");
  };
  ASSERT_THAT(parse(""), IsOk());
  EXPECT_THAT(ParseGemmaConfig(R"({"model_type":"gemma4"})"),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("gemma4_unified")));
  EXPECT_THAT(ParseGemmaConfig(R"({"model_type":"llama"})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"llama\" is not supported")));
  EXPECT_THAT(parse(R"(,"attn_logit_softcapping":50.0)"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("attn_logit_softcapping")));
  EXPECT_THAT(parse(R"(,"num_key_value_heads":3)"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("num_key_value_heads: 3 must divide")));
  EXPECT_THAT(parse(R"(,"rope_scaling":{"rope_type":"yarn"})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rope_type: \"yarn\"")));
  EXPECT_THAT(parse(R"(,"layer_types":["full_attention"])"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("layer_types")));
  EXPECT_THAT(parse(R"(,"hidden_activation":"silu")"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("hidden_activation")));
  EXPECT_THAT(parse(R"(,"hidden_size":1000000000)"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("hidden_size")));
  for (const char* field : {"rms_norm_eps", "rope_theta", "rope_local_base_freq", "query_pre_attn_scalar"}) {
    for (const char* value : {"0", "-1", "1e308", "\"1\"", "[]"}) {
      EXPECT_THAT(parse(Cat(",\"", field, "\":", value)),
                  StatusIs(StatusCode::kInvalidArgument, HasSubstr(Cat(field, ": "))))
          << value;
    }
  }
  EXPECT_THAT(parse(R"(,"rope_scaling":{"rope_type":"linear","factor":0})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rope_scaling.factor: 0 must be a number in 0.001")));
}

TEST(Refusals, PartsOfGemma4ThatLtx25DoesNotHaveAreNamed) {
  const auto parse = [](const std::string& fields) {
    return ParseGemmaConfig(R"({"model_type":"gemma4_unified","text_config":{"num_hidden_layers":2)" + fields + "}}");
  };
  EXPECT_THAT(parse(R"(,"final_logit_softcapping":30.0,"use_bidirectional_attention":"vision")"), IsOk());
  for (const auto& [fields, problem] : std::vector<std::pair<std::string, std::string>>{
           {R"(,"num_kv_shared_layers":1)", "num_kv_shared_layers"},
           {R"(,"use_double_wide_mlp":true)", "use_double_wide_mlp"},
           {R"(,"hidden_size_per_layer_input":256)", "hidden_size_per_layer_input"},
           {R"(,"enable_moe_block":true)", "enable_moe_block"},
           {R"(,"use_bidirectional_attention":"all")", "use_bidirectional_attention: \"all\""},
           {R"(,"per_layer_config":{})", "per_layer_config"},
           {R"(,"attention_bias":true)", "attention_bias"},
           {R"(,"global_head_dim":1024)", "global_head_dim"},
           {R"(,"layer_types":["full_attention","sliding_attention"])", "the last layer must be full_attention"},
           {R"(,"num_global_key_value_heads":3,"attention_k_eq_v":true)", "num_global_key_value_heads: 3 must divide"},
           {R"(,"rope_parameters":{"full_attention":{"rope_type":"yarn"}})", "rope_type: \"yarn\""},
       }) {
    EXPECT_THAT(parse(fields), StatusIs(StatusCode::kInvalidArgument, HasSubstr(problem))) << fields;
  }
}

}  // namespace
}  // namespace kinora

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/family_defaults.h"
#include "engine/config/model_config.h"
#include "engine/config/released_models.h"
#include "engine/weights/safetensors.h"
#include "tests/config/config_files.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = VideoDecoderBlock::Kind;

const char kTiny[] = KINORA_SOURCE_DIR "/models/tiny/";

class Releases : public testing::TestWithParam<const char*> {};

TEST_P(Releases, BothLayoutsDescribeTheSameModel) {
  const std::string version = GetParam();
  KINORA_ASSERT_OK_AND_ASSIGN(ModelConfig lightricks, ParseConfig(ReadConfigFile("lightricks_" + version)));
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig diffusers, ParseConfig(ReadConfigFile("diffusers_" + version)));
  EXPECT_EQ(lightricks.family, "ltx-" + version);
  EXPECT_EQ(lightricks.version, version + ".0");
  EXPECT_EQ(lightricks.scheduler.kind, SchedulerConfig::Kind::kUnknown);
  EXPECT_EQ(diffusers.scheduler.kind, SchedulerConfig::Kind::kDev);
  EXPECT_EQ(lightricks.transformer, diffusers.transformer);
  EXPECT_EQ(lightricks.connector, diffusers.connector);
  EXPECT_EQ(lightricks.video_decoder, diffusers.video_decoder);
  EXPECT_EQ(lightricks.video_encoder, diffusers.video_encoder);
  EXPECT_EQ(lightricks.video_encoder.unavailable, "");
  EXPECT_EQ(lightricks.audio_encoder, diffusers.audio_encoder);
  EXPECT_EQ(lightricks.audio_encoder.unavailable, "");
  EXPECT_EQ(lightricks.audio_decoder, diffusers.audio_decoder);
  EXPECT_EQ(lightricks.vocoder, diffusers.vocoder);
  lightricks.version.clear();
  lightricks.scheduler = diffusers.scheduler;
  EXPECT_EQ(lightricks, diffusers);
  EXPECT_THAT(ValidateModelConfig(lightricks), IsOk());
}

INSTANTIATE_TEST_SUITE_P(All, Releases, testing::Values("2.0", "2.3"),
                         [](const auto& info) { return info.index == 0 ? "Ltx20" : "Ltx23"; });

TEST(Config, Ltx23IsAsTheSpecificationSays) {
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig m, ParseConfig(ReadConfigFile("lightricks_2.3")));
  EXPECT_EQ(m.transformer.layers, 48);
  EXPECT_EQ(m.transformer.video.width(), 4096);
  EXPECT_EQ(m.transformer.audio.width(), 2048);
  EXPECT_TRUE(m.transformer.gated_attention && m.transformer.has_prompt_adaln() && !m.transformer.caption_projection);
  EXPECT_EQ(m.transformer.modulation_rows(), 9);
  EXPECT_EQ(m.connector.flat_width(), 188160);
  EXPECT_EQ(m.connector.video.layers, 8);
  EXPECT_EQ(m.connector.audio.width(), 2048);
  EXPECT_TRUE(m.connector.projection_bias);
  EXPECT_EQ(m.video_decoder.first_width(), 1024);
  EXPECT_EQ(m.video_decoder.last_width(), 128);
  EXPECT_EQ(m.video_decoder.time_factor(), 8);
  EXPECT_EQ(m.video_decoder.space_factor(), 32);
  EXPECT_EQ(m.video_decoder.padding, SpatialPadding::kZeros);
  std::vector<int64_t> convs, layers;
  for (const VideoDecoderBlock& block : m.video_decoder.blocks) {
    if (block.kind == Kind::kUpsample) convs.push_back(block.conv_channels());
    if (block.kind == Kind::kResidual) layers.push_back(block.layers);
    EXPECT_FALSE(block.residual);
  }
  EXPECT_THAT(convs, ElementsAre(4096, 4096, 512, 512));  // docs/model.md "Widths"
  EXPECT_THAT(layers, ElementsAre(2, 2, 4, 6, 4));
  EXPECT_EQ(m.audio_decoder.packed_width(), 128);
  EXPECT_EQ(m.vocoder.output_rate, 48000);
  ASSERT_TRUE(m.vocoder.extension);
  EXPECT_EQ(m.vocoder.base.final_activation, GeneratorConfig::Final::kClamp);
  EXPECT_EQ(m.vocoder.extension->generator.final_activation, GeneratorConfig::Final::kNone);
}

TEST(Config, Ltx20IsAsTheSpecificationSays) {
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig m, ParseConfig(ReadConfigFile("lightricks_2.0")));
  EXPECT_EQ(m.transformer.modulation_rows(), 6);
  EXPECT_TRUE(m.transformer.caption_projection && !m.transformer.gated_attention && !m.transformer.has_prompt_adaln());
  EXPECT_EQ(m.connector.video.width(), 3840);
  EXPECT_EQ(m.connector.audio, m.connector.video);
  EXPECT_FALSE(m.connector.per_modality_projections || m.connector.projection_bias);
  EXPECT_EQ(m.video_decoder.padding, SpatialPadding::kReflect);
  for (const VideoDecoderBlock& block : m.video_decoder.blocks)
    EXPECT_EQ(block.residual, block.kind == Kind::kUpsample);
  EXPECT_FALSE(m.vocoder.extension);
  EXPECT_EQ(m.vocoder.output_rate, 24000);
  EXPECT_EQ(m.vocoder.base.final_activation, GeneratorConfig::Final::kTanh);
}

TEST(Config, AbsentFieldsTakeTheReferencesDefaults) {
  nlohmann::json json = ReadConfigFile("lightricks_2.0");
  json["config"]["transformer"].erase("av_ca_timestep_scale_multiplier");
  json["config"]["transformer"].erase("frequencies_precision");
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig m, ParseConfig(json));
  EXPECT_EQ(m.transformer.av_timestep_scale, 1.0);
  EXPECT_FALSE(m.transformer.rope_double_precision);
}

TEST(Config, VersionsNameTheirFamily) {
  for (const char* version : {"2.0", "2.0.0", "2.0-rc1", "2.1.4"})
    EXPECT_THAT(FamilyOfVersion(version), IsOkAndHolds(std::string("ltx-2.0")));
  for (const char* version : {"2.3.0", "2.3.rc1", "2.3-rc2", "2.4.1"})
    EXPECT_THAT(FamilyOfVersion(version), IsOkAndHolds(std::string("ltx-2.3")));
  EXPECT_THAT(FamilyOfVersion(""), IsOkAndHolds(std::string()));
  for (const char* version : {"2.5.0", "2.5"})
    EXPECT_THAT(FamilyOfVersion(version), IsOkAndHolds(std::string("ltx-2.5")));
  for (const char* version : {"2.6.0", "3.0", "1.0.2"})
    EXPECT_THAT(FamilyOfVersion(version), StatusIs(StatusCode::kUnimplemented, HasSubstr(version)));
  for (const char* version : {"two", "2", "-1.3", "99999999999.0"})
    EXPECT_THAT(FamilyOfVersion(version), StatusIs(StatusCode::kInvalidArgument));
}

TEST(Config, ImagesOfLaterVersionsGetAnotherCrf) {
  for (const char* version : {"2.4", "2.4.0", "2.5.0", "2.5-rc1", "3.0"}) EXPECT_EQ(ImageCrfOf(version), 18) << version;
  for (const char* version : {"", "2", "2.3.9", "2.0", "rc1", "1.9"}) EXPECT_EQ(ImageCrfOf(version), 33) << version;
}

TEST(Config, ReleasedModelsAreKnownByNameWithTheirTextEncoder) {
  for (const auto& [name, version] : {std::pair("ltx-2-19b", "2.0"), {"ltx-2.3-22b", "2.3"}, {"ltx-2.5-22b", "2.5"}}) {
    KINORA_ASSERT_OK_AND_ASSIGN(ModelConfig released, ReleasedModelConfig(name));
    ASSERT_TRUE(released.gemma.has_value()) << name;
    EXPECT_EQ(std::count(released.gemma->sliding.begin(), released.gemma->sliding.end(), false), 8);
    EXPECT_EQ(released.duration_head.has_value(), version == std::string("2.5"));
    EXPECT_EQ(released.generation.image_crf, version == std::string("2.5") ? 18 : 33);
    released.gemma.reset();
    released.duration_head.reset();
    released.spatial_upsampler.reset();
    released.generation.image_crf = 33;
    KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig file, ParseConfig(ReadConfigFile(Cat("lightricks_", version))));
    EXPECT_TRUE(released == file) << name;
  }
  EXPECT_THAT(
      ReleasedModelConfig("ltx-2.3"),
      StatusIs(StatusCode::kNotFound, HasSubstr("ltx-2-19b, ltx-2.3-22b, ltx-2.5-22b, ltx-2.5-22b-diffusion-decoder")));
}

TEST(Config, ADistilledSchedulerSaysSo) {
  nlohmann::json json = ReadConfigFile("diffusers_2.3");
  json["scheduler"]["use_dynamic_shifting"] = false;
  json["scheduler"]["shift_terminal"] = nullptr;
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig m, ParseConfig(json));
  EXPECT_EQ(m.scheduler.kind, SchedulerConfig::Kind::kDistilled);
  EXPECT_EQ(m.scheduler.terminal, std::nullopt);
}

TEST(Config, TheTinyModelsConfigurationIsReadAndMeetsItsTensors) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                              Checkpoint::Open({.paths = {std::string(kTiny) + "ltx-2.3-tiny-dev.safetensors"},
                                                .text_encoder = std::string(kTiny) + "gemma"}));
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig m, ReadModelConfig(*checkpoint));
  EXPECT_EQ(m.family, "ltx-2.3");
  EXPECT_EQ(m.transformer.layers, 2);
  EXPECT_EQ(m.connector.text_states, 7);
  ASSERT_TRUE(m.gemma);
  EXPECT_EQ(m.gemma->sliding, std::vector<bool>({true, true, true, true, true, false}));
  EXPECT_EQ(m.gemma->global_rope_factor, 8.0);
  EXPECT_EQ(m.scheduler.kind, SchedulerConfig::Kind::kDev);
}

TEST(Config, ModelMaxLengthOfTheTokenizerIsTheRowsOfAPrompt) {
  for (const auto& [text, rows] : std::vector<std::pair<std::string, int64_t>>{
           {R"({"model_max_length": 128})", 128},
           {R"({"model_max_length": 512.0})", 512},
           {R"({"model_max_length": 1024})", 1024},
           {R"({"model_max_length": 131072})", 1024},
           {R"({"model_max_length": 1000000000000000019884624838656})", 1024},  // the value that Gemma publishes
           {R"({"model_max_length": null})", 1024},
           {"{}", 1024}}) {
    EXPECT_THAT(ParsePromptRows(text), IsOkAndHolds(rows)) << text;
  }
  for (const char* value : {"0", "-128", "0.5", "127.5", "\"128\"", "[]", "true"}) {
    EXPECT_THAT(ParsePromptRows(Cat(R"({"model_max_length": )", value, "}")),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(Cat("model_max_length: ", value, " must be"))));
  }
  for (const char* text : {"", "\xff\xfe", "[1]", "{\"model_max_length\": 12", "{\"model_max_length\": 1e999}"}) {
    EXPECT_THAT(ParsePromptRows(text), StatusIs(StatusCode::kInvalidArgument, HasSubstr("tokenizer_config.json")))
        << text;
  }
}

// Reads models/tiny with a text encoder folder whose tokenizer_config.json contains `text`.
absl::StatusOr<ModelConfig> TinyWithTokenizerConfig(const std::string& text) {
  TemporaryDirectory folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
    std::filesystem::create_symlink(Cat(kTiny, "gemma/", name), folder.File(name));
  }
  WriteFile(folder.File("tokenizer_config.json"), text);
  KINORA_ASSIGN_OR_RETURN(
      const auto checkpoint,
      Checkpoint::Open({.paths = {Cat(kTiny, "ltx-2.3-tiny-dev.safetensors")}, .text_encoder = folder.path()}));
  return ReadModelConfig(*checkpoint);
}

TEST(Config, RowsThatTheRegistersDoNotDivideAreRefusedByField) {
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig m, TinyWithTokenizerConfig(R"({"model_max_length": 256})"));
  EXPECT_EQ(m.connector.rows, 256);
  for (int rows : {1, 100, 127, 129}) {
    EXPECT_THAT(TinyWithTokenizerConfig(Cat(R"({"model_max_length": )", rows, "}")),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(Cat("128 registers do not divide the prompt's ", rows, " rows")),
                               HasSubstr("model_max_length of tokenizer_config.json"))));
  }
  EXPECT_THAT(TinyWithTokenizerConfig("garbage"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("tokenizer_config.json")));
}

// Reads models/tiny's tensors with a modified configuration.
absl::StatusOr<ModelConfig> TinyWith(std::string_view pointer, const nlohmann::json& value) {
  KINORA_ASSIGN_OR_RETURN(const auto tiny, SafetensorsFile::Open(std::string(kTiny) + "ltx-2.3-tiny-dev.safetensors"));
  nlohmann::json config = nlohmann::json::parse(tiny->metadata().at("config"));
  config[nlohmann::json::json_pointer(std::string(pointer))] = value;
  TemporaryDirectory folder;
  SafetensorsWriter writer;
  writer.SetMetadata("config", config.dump());
  for (const TensorInfo& tensor : tiny->tensors()) writer.Declare(tensor.name, tensor.dtype, tensor.shape);
  KINORA_RETURN_IF_ERROR(writer.Open(folder.File("m.safetensors")));
  for (const TensorInfo& tensor : tiny->tensors()) {
    const std::string zeros(tensor.bytes, '\0');
    KINORA_RETURN_IF_ERROR(writer.Append(tensor.name, zeros.data(), tensor.bytes));
  }
  KINORA_RETURN_IF_ERROR(writer.Close());
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open({.paths = {folder.File("m.safetensors")}}));
  return ReadModelConfig(*checkpoint);
}

TEST(Config, AConfigurationThatContradictsTheTensorsIsRefusedWithBothShapes) {
  EXPECT_THAT(TinyWith("/transformer/num_layers", 3),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("transformer_blocks.2.scale_shift_table: missing")));
  EXPECT_THAT(TinyWith("/transformer/num_layers", 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("the configuration has 1 layers")));
  EXPECT_THAT(TinyWith("/transformer/apply_gated_attention", false),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no gated attention")));
  EXPECT_THAT(TinyWith("/vae/decoder_base_channels", 8),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("vae.decoder.conv_in.conv.weight: shape [16, 16, 3, 3, 3]"),
                             HasSubstr("needs [32, 16, 3, 3, 3]"))));
  EXPECT_THAT(TinyWith("/audio_vae/model/params/ddconfig/ch", 8),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("audio_vae.decoder.conv_in")));
  EXPECT_THAT(TinyWith("/vocoder/bwe/n_fft", 160), StatusIs(StatusCode::kInvalidArgument, HasSubstr("win_size")));
}

TEST(Config, NoConfigurationAtAllIsSaid) {
  TemporaryDirectory folder;
  float value = 0;
  ASSERT_THAT(WriteSafetensors(folder.File("m"), {{"vae.decoder.x", Tensor(DType::kF32, {1}, &value)}}), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open({.paths = {folder.File("m")}}));
  EXPECT_THAT(ReadModelConfig(*checkpoint), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no configuration")));
}

TEST(GemmaConfig, BothSpellingsOfTheRotaryParametersAreRead) {
  const char kOld[] =
      R"({"model_type":"gemma3","text_config":{"hidden_size":64,"num_hidden_layers":3,"num_attention_heads":4,
    "num_key_value_heads":2,"head_dim":16,"rope_theta":1e6,"rope_local_base_freq":1e4,"sliding_window_pattern":3,
    "rope_scaling":{"factor":8.0,"rope_type":"linear"},"vocab_size":100,"query_pre_attn_scalar":16}})";
  const char kNew[] = R"({"model_type":"gemma3_text","hidden_size":64,"num_hidden_layers":3,"num_attention_heads":4,
    "num_key_value_heads":2,"head_dim":16,"layer_types":["sliding_attention","sliding_attention","full_attention"],
    "rope_parameters":{"full_attention":{"rope_theta":1e6,"rope_type":"linear","factor":8.0},
    "sliding_attention":{"rope_theta":1e4,"rope_type":"default"}},"vocab_size":100,"query_pre_attn_scalar":16})";
  KINORA_ASSERT_OK_AND_ASSIGN(const GemmaConfig old, ParseGemmaConfig(kOld));
  KINORA_ASSERT_OK_AND_ASSIGN(const GemmaConfig now, ParseGemmaConfig(kNew));
  EXPECT_EQ(old, now);
  EXPECT_EQ(now.global_rope_factor, 8.0);
  EXPECT_EQ(now.sliding, std::vector<bool>({true, true, false}));
}

}  // namespace
}  // namespace kinora

#include "engine/model/text_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/config_reader.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/weights/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/model/text_rig.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVideoWidth = 64, kAudioWidth = 32;
constexpr char kTinyModel[] = "models/tiny/ltx-2.3-tiny-dev.safetensors";

// `model` is a path in the source tree. All tiny models share one text encoder.
std::shared_ptr<const Checkpoint> OpenTiny(const std::string& model = kTinyModel) {
  const ModelFiles files{.paths = {KINORA_SOURCE_DIR "/" + model},
                         .text_encoder = KINORA_SOURCE_DIR "/models/tiny/gemma"};
  return Checkpoint::Open(files).value();
}

// `change` may modify the configuration read from the files.
absl::StatusOr<std::unique_ptr<TextEncoder>> LoadTiny(
    ModelRig& rig, const TextEncoder::Options& options = {},
    const std::function<void(ModelConfig&)>& change = [](ModelConfig&) {}, const std::string& model = kTinyModel) {
  const auto checkpoint = OpenTiny(model);
  KINORA_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(*checkpoint));
  change(config);
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<const Tokenizer> tokenizer, Tokenizer::Load(checkpoint->tokenizer_model()));
  KINORA_ASSIGN_OR_RETURN(WeightLoader weights,
                          WeightLoader::Open(checkpoint, rig.mesh, rig.backend(), rig.exec.dtype));
  KINORA_ASSIGN_OR_RETURN(auto encoder,
                          TextEncoder::Load(weights, *config.gemma, config.connector, std::move(tokenizer), options));
  KINORA_RETURN_IF_ERROR(weights.Finish());
  return encoder;
}

struct Encoded {
  std::vector<float> video, audio;
  friend bool operator==(const Encoded&, const Encoded&) = default;
};

absl::StatusOr<std::vector<Encoded>> Encode(ModelRig& rig, TextEncoder& encoder,
                                            const std::vector<std::string>& prompts) {
  ArenaScope temp(rig.arena);
  std::vector<TextContext> contexts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    contexts.push_back(encoder.AllocContext(rig.arena, rig.exec.dtype));
    rig.exec.ops.Fill(NAN, contexts.back().video);
    rig.exec.ops.Fill(NAN, contexts.back().audio);
  }
  KINORA_RETURN_IF_ERROR(encoder.Encode(rig.exec, prompts, contexts));
  std::vector<Encoded> encoded;
  encoded.reserve(contexts.size());
  for (const TextContext& context : contexts) encoded.push_back({rig.Floats(context.video), rig.Floats(context.audio)});
  return encoded;
}

// Returns every `stride`-th row, like the goldens of whole renders.
HostTensor EveryRow(const std::vector<float>& values, int64_t width, int64_t stride) {
  const int64_t rows = (static_cast<int64_t>(values.size()) / width + stride - 1) / stride;
  HostTensor out(DType::kF32, {rows, width});
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(values.data() + row * stride * width, width, out.f32() + row * width);
  return out;
}

class WholeRenders : public testing::TestWithParam<std::tuple<const char*, DType, TestedBackend>> {};

TEST_P(WholeRenders, ContextsEqualTheReference) {
  const auto& [name, dtype, on] = GetParam();
  Golden golden(name);
  const auto parameters = nlohmann::json::parse(golden.metadata("parameters"));
  const int64_t stride = parameters["context_row_stride"];
  std::vector<std::string> prompts = {parameters["request"]["prompt"]};
  const bool negative = golden.Has("out.video_context_negative");
  if (negative) prompts.push_back(parameters["request"]["negative_prompt"]);
  ModelRig rig(on, dtype);
  const auto encoder = LoadTiny(
                           rig, {}, [](ModelConfig&) {}, parameters["model"])
                           .value();
  std::vector<int32_t> ids = encoder->Tokenize(prompts[0]).value();
  EXPECT_EQ(
      RelativeError(Tensor(DType::kI32, {static_cast<int64_t>(ids.size())}, ids.data()), golden.Get("out.input_ids")),
      0.0);
  const std::vector<Encoded> contexts = Encode(rig, *encoder, prompts).value();
  const double tolerance = Tolerance(on, dtype);
  for (size_t i = 0; i < contexts.size(); ++i) {
    const std::string suffix = i == 0 ? "" : "_negative";
    EXPECT_TRUE(Near(EveryRow(contexts[i].video, golden.Get("out.video_context").width(), stride).tensor(),
                     golden.Get("out.video_context" + suffix), tolerance));
    EXPECT_TRUE(Near(EveryRow(contexts[i].audio, golden.Get("out.audio_context").width(), stride).tensor(),
                     golden.Get("out.audio_context" + suffix), tolerance));
  }
}

INSTANTIATE_TEST_SUITE_P(All, WholeRenders,
                         testing::Combine(testing::Values("pipeline_one_stage", "pipeline_distilled", "pipeline_2_0"),
                                          testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(DTypeName(std::get<1>(info.param))) + "_" + std::get<2>(info.param).name;
                         });

TEST(TextEncoder, ARepeatedPromptCostsNothingAndIsTheSame) {
  ModelRig rig(Cpu(), DType::kF32);
  const auto encoder = LoadTiny(rig).value();
  const auto first = Encode(rig, *encoder, {"a red fox", "blurry"}).value();
  EXPECT_EQ(encoder->cache().misses(), 2);
  EXPECT_EQ(encoder->cache().entries(), 2);
  rig.arena.ResetPeak();
  const int64_t idle = rig.arena.peak();
  const auto again = Encode(rig, *encoder, {" blurry\n", "a red fox"}).value();
  EXPECT_EQ(encoder->cache().hits(), 2);
  EXPECT_EQ(encoder->cache().misses(), 2);
  EXPECT_EQ(rig.arena.peak() - idle,
            2 * 1024 * (kVideoWidth + kAudioWidth) * 4);  // only the contexts; nothing is computed
  EXPECT_EQ(again[0], first[1]);
  EXPECT_EQ(again[1], first[0]);
}

TEST(TextEncoder, APromptGivenTwiceIsComputedOnce) {
  ModelRig rig(Cpu(), DType::kF32);
  const auto encoder = LoadTiny(rig).value();
  const auto twice = Encode(rig, *encoder, {"a red fox", "a red fox "}).value();
  EXPECT_EQ(twice[0], twice[1]);
  EXPECT_EQ(encoder->cache().misses(), 1);
  EXPECT_EQ(encoder->cache().entries(), 1);
}

TEST(TextEncoder, WithoutACacheEveryPromptIsComputedAgainToTheSameBits) {
  ModelRig rig(Cpu(), DType::kBF16);
  const auto encoder = LoadTiny(rig, {.cache_bytes = 0}).value();
  const auto first = Encode(rig, *encoder, {"a red fox"}).value();
  const auto beside = Encode(rig, *encoder, {"a long prompt about something else entirely", "a red fox"}).value();
  EXPECT_EQ(encoder->cache().entries(), 0);
  EXPECT_EQ(encoder->cache().bytes(), 0);
  EXPECT_EQ(first[0], beside[1]);
}

TEST(TextEncoder, TheLeastRecentlyUsedPromptIsDroppedFirst) {
  ModelRig rig(Cpu(), DType::kF32);
  const int64_t entry = 1024 * (kVideoWidth + kAudioWidth) * 4;
  const auto encoder = LoadTiny(rig, {.cache_bytes = 2 * entry + 4096}).value();
  for (const char* prompt : {"one", "two", "one", "three"}) ASSERT_TRUE(Encode(rig, *encoder, {prompt}).ok());
  EXPECT_EQ(encoder->cache().entries(), 2);
  EXPECT_LE(encoder->cache().bytes(), 2 * entry + 4096);
  EXPECT_EQ(encoder->cache().hits(), 1);
  ASSERT_TRUE(Encode(rig, *encoder, {"one"}).ok());
  EXPECT_EQ(encoder->cache().hits(), 2);  // kept: used after "two"
  ASSERT_TRUE(Encode(rig, *encoder, {"two"}).ok());
  EXPECT_EQ(encoder->cache().hits(), 2);  // dropped
}

TEST(TextEncoder, PrecisionsAreCachedApart) {
  ModelRig wide(Cpu(), DType::kF32);
  const auto encoder = LoadTiny(wide).value();
  ASSERT_TRUE(Encode(wide, *encoder, {"a red fox"}).ok());
  ModelRig narrow(Cpu(), DType::kBF16);
  ASSERT_TRUE(Encode(narrow, *encoder, {"a red fox"}).ok());
  EXPECT_EQ(encoder->cache().misses(), 2);
}

TEST(TextEncoder, AnEmptyPromptIsItsBeginTokenAndRegisters) {
  ModelRig rig(Cpu(), DType::kF32);
  const auto encoder = LoadTiny(rig).value();
  EXPECT_EQ(encoder->Tokenize("  ").value(), std::vector<int32_t>{2});
  const auto encoded = Encode(rig, *encoder, {""}).value();
  for (float value : encoded[0].video) ASSERT_TRUE(std::isfinite(value));
}

TEST(TextEncoder, TheLongestPromptFillsEveryRow) {
  ModelRig rig(Cpu(), DType::kF32);
  const auto encoder = LoadTiny(rig).value();
  const std::string prompt(4000, 'x');
  EXPECT_EQ(encoder->Tokenize(prompt).value().size(), 1024u);
  const auto encoded = Encode(rig, *encoder, {prompt}).value();
  for (float value : encoded[0].audio) ASSERT_TRUE(std::isfinite(value));
}

TEST(TextEncoder, InvalidUtf8IsRefusedBeforeAnythingIsComputed) {
  ModelRig rig(Cpu(), DType::kF32);
  const auto encoder = LoadTiny(rig).value();
  EXPECT_THAT(Encode(rig, *encoder, {"a fox\xff"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("byte 5")));
  EXPECT_EQ(encoder->cache().entries(), 0);
}

TEST(TextEncoder, AnyMeshEncodesToTheBitsOfOneRank) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto run = [&](const Mesh& mesh) -> absl::StatusOr<std::vector<Encoded>> {
      ModelRig rig(Cpu(), dtype, nullptr, &mesh);
      KINORA_ASSIGN_OR_RETURN(auto encoder, LoadTiny(rig));
      KINORA_ASSIGN_OR_RETURN(auto first, Encode(rig, *encoder, {"a red fox runs", "blurry"}));
      KINORA_ASSIGN_OR_RETURN(auto second, Encode(rig, *encoder, {"blurry", "a blue fox"}));  // one of them is cached
      EXPECT_EQ(encoder->cache().hits(), 1);
      first.insert(first.end(), second.begin(), second.end());
      return first;
    };
    const std::vector<Encoded> one = RunRanks<std::vector<Encoded>>({}, run)[0];
    for (const MeshShape& shape : {MeshShape{.tokens = 2},
                                   {.guidance = 2},
                                   {.tensor = 2},
                                   {.tensor = 3},
                                   {.guidance = 2, .tokens = 2},
                                   {.tokens = 4},
                                   {.guidance = 2, .tokens = 2, .tensor = 2},
                                   {.tokens = 8}}) {
      for (const std::vector<Encoded>& encoded : RunRanks<std::vector<Encoded>>(shape, run)) {
        EXPECT_TRUE(encoded == one) << shape.ToString();
      }
    }
  }
}

// Sets all values of a tensor in a file to NaN, so that a loader that reads them fails.
void Spoil(const std::string& path, const std::string& name) {
  const auto file = SafetensorsFile::Open(path).value();
  const TensorInfo& tensor = *file->Find(name);
  std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header = 0;
  bytes.read(reinterpret_cast<char*>(&header), sizeof(header));
  bytes.seekp(static_cast<int64_t>(sizeof(header) + header) + tensor.offset);
  bytes << std::string(tensor.bytes, '\xff');
}

// Returns which of four ranks, each loading separately, cannot load the tiny text encoder after `name` is spoiled.
std::vector<int> ReadersOf(const std::string& name) {
  namespace fs = std::filesystem;
  const TemporaryDirectory folder;
  fs::copy(KINORA_SOURCE_DIR "/models/tiny", folder.path(), fs::copy_options::recursive);
  const std::string model = folder.File("ltx-2.3-tiny-dev.safetensors"), gemma = folder.File("gemma/model.safetensors");
  Spoil(SafetensorsFile::Open(gemma).value()->Find(name) != nullptr ? gemma : model, name);
  std::vector<int> readers;
  for (int rank = 0; rank < 4; ++rank) {
    const auto mesh = MakeDryMesh({.guidance = 2, .tokens = 2}, rank).value();
    ModelRig rig(Cpu(), DType::kBF16, nullptr, mesh.get());
    const auto checkpoint = Checkpoint::Open({.paths = {model}, .text_encoder = folder.File("gemma")}).value();
    const ModelConfig config = ReadModelConfig(*checkpoint).value();
    const WeightLoader weights = WeightLoader::Open(checkpoint, *mesh, rig.backend(), DType::kBF16).value();
    EXPECT_TRUE(TextEncoder::Load(weights, *config.gemma, config.connector, nullptr, {}).ok());
    if (!weights.Finish().ok()) readers.push_back(rank);
  }
  return readers;
}

TEST(TextEncoder, EachRankReadsTheLayersThatItHoldsAlone) {
  using Ranks = std::vector<int>;
  const auto gemma = [](int layer) {
    return ReadersOf(Cat("language_model.model.layers.", layer, ".mlp.down_proj.weight"));
  };
  EXPECT_EQ(ReadersOf("language_model.model.embed_tokens.weight"), Ranks{0});
  EXPECT_EQ(gemma(0), Ranks{0});
  EXPECT_EQ(gemma(1), Ranks{1});
  EXPECT_EQ(gemma(3), Ranks{2});
  EXPECT_EQ(gemma(5), Ranks{3});
  EXPECT_EQ(ReadersOf("language_model.model.norm.weight"), Ranks{3});
  const std::string blocks = "model.diffusion_model.video_embeddings_connector.transformer_1d_blocks.";
  EXPECT_EQ(ReadersOf(blocks + "0.ff.net.2.weight"), Ranks{0});
  EXPECT_EQ(ReadersOf(blocks + "1.ff.net.2.weight"), Ranks{2});
  // The states of a row are interleaved element by element, so every rank that holds some reads the whole row.
  EXPECT_EQ(ReadersOf("text_embedding_projection.video_aggregate_embed.weight"), (Ranks{0, 1, 2, 3}));
}

TEST(TextEncoder, ATokenizerOrEncoderOfAnotherModelIsRefused) {
  ModelRig rig(Cpu(), DType::kF32);
  EXPECT_THAT(LoadTiny(rig, {}, [](ModelConfig& config) { config.gemma->vocabulary = 1000; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tokenizer.model has 1024 ids")));
  EXPECT_THAT(LoadTiny(rig, {}, [](ModelConfig& config) { config.gemma->layers = 5; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("7 states of 64")));
}

// The planned memory equals that of a run.
TEST(TextEncoder, ADryRunMeasuresTheMemoryOfARealOne) {
  ModelRig rig(Cpu(), DType::kBF16);
  const auto encoder = LoadTiny(rig).value();
  ASSERT_TRUE(Encode(rig, *encoder, {std::string(4000, 'x'), std::string(4000, 'y')}).ok());

  DryBackend backend;
  const auto mesh = Mesh::Single();
  Arena arena = Arena::Dry();
  Exec exec{backend, arena, arena, *mesh, DType::kBF16};
  const ModelConfig config = ReadModelConfig(*OpenTiny()).value();
  const auto dry =
      TextEncoder::Load(WeightLoader::Dry(*mesh, backend, DType::kBF16), *config.gemma, config.connector, nullptr, {})
          .value();
  const std::vector<TextContext> contexts = {dry->AllocContext(arena, DType::kBF16),
                                             dry->AllocContext(arena, DType::kBF16)};
  const std::vector<std::vector<int32_t>> longest(2, std::vector<int32_t>(1024, 0));
  ASSERT_TRUE(dry->EncodeTokens(exec, longest, contexts).ok());
  EXPECT_EQ(arena.peak(), rig.arena.peak());
}

// Projection and blocks over 1024 rows: 3.0 and 6.7 TFLOP per prompt (docs/model.md "Parameters and FLOPs").
TEST(TextEncoder, ReleasedConnectorsHaveTheirFlops) {
  for (const auto& [config, expected] :
       {std::pair{ReleasedConnector20(), 3.0}, std::pair{ReleasedConnector23(), 6.7}}) {
    DryBackend backend;
    const auto mesh = Mesh::Single();
    Arena arena = Arena::Dry();
    Exec exec{backend, arena, arena, *mesh, DType::kBF16};
    const auto encoder =
        TextEncoder::Load(WeightLoader::Dry(*mesh, backend, DType::kBF16), ReleasedGemma(), config, nullptr, {})
            .value();
    const TextContext context = encoder->AllocContext(arena, DType::kBF16);
    const auto flops = [&](int64_t tokens) {
      backend.ops().ResetCost();
      EXPECT_TRUE(encoder->EncodeTokens(exec, {std::vector<int32_t>(tokens, 0)}, {context}).ok());
      return static_cast<double>(backend.ops().cost().flops()) / 1e12;
    };
    EXPECT_NEAR(flops(1024) - 22.9, expected, 0.35);  // without Gemma's; both figures are rounded
    EXPECT_LT(flops(256), 0.5 * flops(1024));         // only valid rows are computed
  }
}

}  // namespace
}  // namespace kinora

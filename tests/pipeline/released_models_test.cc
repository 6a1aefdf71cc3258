// The released models on shapes only: the code requests exactly the tensors that the files contain, and parameter
// counts and costs equal the documented ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "engine/model/audio_decoder.h"
#include "engine/model/text_encoder.h"
#include "engine/model/video_decoder.h"
#include "engine/model/vocoder.h"
#include "engine/ops/dry_backend.h"
#include "engine/pipeline/velocity_model.h"
#include "engine/weights/key_tables.h"
#include "tests/config/config_files.h"
#include "tests/weights/key_list.h"

namespace kinora {
namespace {

constexpr int64_t kTextRows = 1024;

ModelConfig Released(const std::string& version) {
  absl::StatusOr<ModelConfig> config = ParseConfig(ReadConfigFile("lightricks_" + version));
  KINORA_CHECK(config.ok()) << config.status().ToString();
  return *std::move(config);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

using Shapes = std::map<std::string, std::string>;  // canonical name -> shape of a tensor

Shapes AskedFor(const ModelConfig& config) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  const WeightLoader weights = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  OrDie(Transformer::Load(weights.Under("transformer"), config.transformer));
  GemmaConfig gemma;
  gemma.sliding.assign(gemma.layers, true);
  OrDie(TextEncoder::Load(weights, gemma, config.connector, nullptr, {}));
  OrDie(VideoDecoder::Load(weights.Under("vae"), config.video_decoder));
  OrDie(AudioDecoder::Load(weights.Under("audio_vae"), config.audio_decoder));
  OrDie(Vocoder::Load(weights.Under("vocoder"), config.vocoder, config.audio_decoder));
  Shapes asked;
  for (const RecordedTensor& tensor : weights.recorded()) {
    if (ComponentOf(tensor.name) != "text_encoder") asked[tensor.name] = tensor.shape.ToString();
  }
  return asked;
}

class ReleasedModels : public testing::TestWithParam<std::string> {};

TEST_P(ReleasedModels, EveryTensorOfTheFilesIsAskedForByItsNameAndShapeAndNoOther) {
  Shapes expected;
  for (const NamedTensor& tensor : ReadKeyList(GetParam())) {
    const std::optional<std::string> name = CanonicalFromSingleFile(tensor.single_file);
    ASSERT_TRUE(name.has_value()) << tensor.single_file;
    if (!IsKnownUnread(*name)) expected[*name] = Shape(tensor.shape).ToString();
  }
  const Shapes asked = AskedFor(Released(GetParam()));
  EXPECT_GT(asked.size(), 2000u);
  for (const auto& [name, shape] : expected) {
    const auto found = asked.find(name);
    if (found == asked.end()) {
      ADD_FAILURE() << name << " is never read";
    } else {
      EXPECT_EQ(found->second, shape) << name;
    }
  }
  for (const auto& [name, shape] : asked) EXPECT_TRUE(expected.contains(name)) << name << " is in no file";
}

INSTANTIATE_TEST_SUITE_P(All, ReleasedModels, testing::Values("2.0", "2.3"),
                         [](const auto& info) { return "ltx" + std::string(1, info.param[0]) + info.param[2]; });

// The transformer without memory.
struct DryTransformer {
  explicit DryTransformer(const std::string& version)
      : config(Released(version).transformer),
        weights(WeightLoader::Dry(*mesh, backend, DType::kBF16)),
        transformer(OrDie(Transformer::Load(weights.Under("transformer"), config))) {}

  // Returns the cost of one forward pass with one guidance pass and 126 audio tokens.
  double TeraFlops(int64_t video_tokens) {
    Arena arena = Arena::Dry();
    Exec exec{.backend = backend, .arena = arena, .host = arena, .mesh = *mesh, .dtype = DType::kBF16};
    VelocityInputs inputs;
    inputs.of.video.positions.assign(3, std::vector<float>(video_tokens, 0.5f));
    inputs.of.audio.positions.assign(1, std::vector<float>(126, 0.5f));
    const auto context = [&](int64_t width) { return arena.Alloc(DType::kBF16, {kTextRows, width}); };
    const bool projects = config.caption_projection;
    inputs.cond = {context(projects ? config.caption_channels : config.video.context_width),
                   context(projects ? config.caption_channels : config.audio.context_width)};
    inputs.of.video.sigmas = inputs.of.audio.sigmas = {1.0f};
    const VelocityModel model = OrDie(VelocityModel::Prepare(exec, *transformer, inputs));
    const auto latent = [&](int64_t rows, int64_t width) { return arena.Alloc(DType::kF32, {rows, width}); };
    backend.ops().ResetCost();
    model.Forward(exec, {},
                  {latent(model.rows().video, config.video.in_channels), latent(126, config.audio.in_channels)},
                  {latent(video_tokens, config.video.out_channels), latent(126, config.audio.out_channels)});
    return static_cast<double>(backend.ops().cost().flops()) * 1e-12;
  }

  std::unique_ptr<Mesh> mesh = Mesh::Single();
  DryBackend backend;
  TransformerConfig config;
  WeightLoader weights;
  std::unique_ptr<Transformer> transformer;
};

double RoundedMillions(int64_t count) { return std::round(static_cast<double>(count) * 1e-5) / 10; }

TEST(ReleasedTransformers, HaveTheirKnownParameters) {
  EXPECT_DOUBLE_EQ(RoundedMillions(DryTransformer("2.0").weights.recorded_elements()), 18876.2);
  EXPECT_DOUBLE_EQ(RoundedMillions(DryTransformer("2.3").weights.recorded_elements()), 18988.8);
}

TEST(ReleasedTransformers, CostTheirKnownFlops) {
  DryTransformer v23("2.3");
  const std::pair<int64_t, double> known[] = {{1536, 48}, {6144, 199}, {15360, 601}, {24576, 1137}, {32640, 1715}};
  for (const auto& [tokens, flops] : known) EXPECT_NEAR(v23.TeraFlops(tokens), flops, 0.02 * flops) << tokens;
}

}  // namespace
}  // namespace kinora

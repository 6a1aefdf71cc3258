// Models with the released head sizes (video 128, audio 64), for which fused kernels are written and which the tiny
// models lack. The weights are drawn (drawn_checkpoint.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/pipeline/golden_renders.h"
#include "tests/pipeline/transformer_golden.h"
#include "tests/testing/drawn_checkpoint.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using Variant = std::tuple<const char*, DType, TestedBackend>;

class ReleasedHeads : public testing::TestWithParam<Variant> {
 protected:
  std::string name() const { return std::string("released_heads_") + std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  const TestedBackend& on() const { return std::get<2>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(On, ReleasedHeads,
                         testing::Combine(testing::Values("2_0", "2_3"), testing::Values(DType::kF32, DType::kBF16),
                                          testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(DTypeName(std::get<1>(info.param))) + "_" + std::get<2>(info.param).name;
                         });

TEST_P(ReleasedHeads, FourGuidancePassesEqualTheReference) {
  Golden golden(name());
  const DrawnCheckpoint drawn(golden);
  const TransformerGolden transformer(golden, drawn.path());
  ASSERT_EQ(transformer.config().video.head_dim, 128);
  ASSERT_EQ(transformer.config().audio.head_dim, 64);
  const std::vector<int> stg = nlohmann::json::parse(golden.metadata("parameters"))["stg_blocks"];
  const double tolerance = Tolerance(on(), dtype());
  TapCheck taps(golden, tolerance, GoldenLayout::kPaddedPasses);
  ForwardCase c{.golden = golden,
                .passes = {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated},
                .context_rows = {0, 1},
                .video_stg = stg,
                .audio_stg = stg,
                .dtype = dtype(),
                .on = on(),
                .taps = &taps.taps()};
  const Velocity eager = transformer.Single(c);
  EXPECT_TRUE(taps.Result());
  EXPECT_EQ(taps.compared(), 2);
  EXPECT_TRUE(Near(eager.video, golden.Get("out.video"), tolerance));
  EXPECT_TRUE(Near(eager.audio, golden.Get("out.audio"), tolerance));
  c.taps = nullptr;
  c.capture = true;
  EXPECT_TRUE(transformer.Single(c) == eager) << "a replayed step differs from an eager one";
}

TEST_P(ReleasedHeads, AWholeRenderEqualsTheReference) {
  Golden weights(name()), golden("pipeline_" + name());
  const DrawnCheckpoint drawn(weights);
  TemporaryDirectory text_encoder;
  MakeTextEncoder(text_encoder, nlohmann::json::parse(golden.metadata("parameters"))["text_rows"]);
  PipelineOptions options;
  options.files = {.paths = {drawn.path()}, .text_encoder = text_encoder.path()};
  options.precision = dtype();
  ClipRecorder clip;
  ASSERT_THAT(RenderOn(on(), options, *Mesh::Single(), RequestOf(golden), clip), IsOk());
  // bf16: twice the tolerance of a step, because guidance doubles its error; the vocoder amplifies it further.
  const RenderTolerances rounded{.context = 2e-2, .latent = 4e-2, .waveform = 0.1, .frames = 45};
  ExpectRender(clip, golden, dtype() == DType::kF32 ? FloatTolerances(on()) : rounded);
}

// kUniform starts torch.manual_seed(123); torch.rand(4). The expected values scale it by the kind of tensor.
TEST(WeightSource, DrawsAsTorchDoesAndScalesByTheKindOfTensor) {
  const auto floats = [](std::string_view name, const Shape& shape) {
    WeightSource source(123);
    std::vector<float> values;
    for (const bf16 value : source.Draw(name, shape)) values.push_back(static_cast<float>(value));
    return values;
  };
  const auto rounded = [](float value) { return static_cast<float>(bf16(value)); };
  constexpr float kUniform[] = {4967934 * 0x1p-24f, 8666477 * 0x1p-24f};
  const float first = 2 * kUniform[0] - 1, second = 2 * kUniform[1] - 1;
  EXPECT_THAT(floats("x.to_q.bias", {2}), ElementsAre(rounded(0.875f * first), rounded(0.875f * second)));
  EXPECT_THAT(floats("x.q_norm.weight", {2}), ElementsAre(rounded(1 + 0.25f * first), rounded(1 + 0.25f * second)));
  EXPECT_THAT(floats("x.to_q.weight", {1, 2}),
              ElementsAre(rounded(1.2247449f * first), rounded(1.2247449f * second)));  // sqrt(3 / 2)
}

}  // namespace
}  // namespace kinora

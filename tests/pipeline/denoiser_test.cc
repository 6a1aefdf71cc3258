// The denoising loop: what it keeps clean, holds and captures.
#include "engine/pipeline/denoiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/diffusion/noise.h"
#include "engine/ops/backend.h"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kVideo = 18, kAudio = 10;  // tokens

std::vector<Floats> Positions(int64_t axes, int64_t tokens) {
  std::vector<Floats> positions(axes);
  for (Floats& axis : positions) {
    for (int64_t i = 0; i < tokens; ++i) axis.push_back(0.25f * static_cast<float>(i));
  }
  return positions;
}

Floats ToFloats(const Tensor& t) { return Floats(t.data<float>(), t.data<float>() + t.elements()); }

struct Options {
  int steps = 2;
  float clean_scale = 1;
  bool eager = false;
  enum { kNoise, kMaskedWhole, kFrozen } audio = kNoise;  // the last two: z is clean
};

class DenoiserTest : public testing::Test {
 protected:
  void SetUp() override {
    const ModelFiles files{.paths = {weights_.WriteCheckpoint()}};
    KINORA_ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(files));
    config_ = ParseLightricksConfig(weights_.metadata("config"), weights_.metadata("model_version"))->transformer;
    KINORA_ASSERT_OK_AND_ASSIGN(WeightLoader loader, WeightLoader::Open(checkpoint, *mesh_, *backend_, DType::kF32));
    KINORA_ASSERT_OK_AND_ASSIGN(transformer_, Transformer::Load(loader.Under("transformer"), config_));
  }

  // Random values from the run's noise.
  Tensor Random(const Shape& shape) {
    Tensor t = arena_.Alloc(DType::kF32, shape);
    noise_.Fill(absl::MakeSpan(t.data<float>(), static_cast<size_t>(t.elements())));
    return t;
  }

  // Denoises seeded noise and returns the video's clean latent [tokens, channels].
  absl::StatusOr<Floats> Run(const Floats& mask, Floats* clean, const Options& options = {}) {
    const ArenaScope scope(arena_);
    noise_ = NoiseSource(7);
    Taps listener([](std::string_view, const Tensor&) {});
    Exec exec{.backend = *backend_,
              .arena = arena_,
              .host = arena_,
              .mesh = *mesh_,
              .taps = options.eager ? &listener : nullptr};
    const int64_t rows = 1024;
    VelocityInputs inputs{.of = {.video = {.positions = Positions(3, kVideo), .sigmas = {1.0f, 0.5f}, .mask = mask},
                                 .audio = {.positions = Positions(1, kAudio), .sigmas = {1.0f, 0.5f}}}};
    if (options.audio != Options::kNoise) inputs.of.audio.sigmas = {0.0f, 0.0f};
    inputs.cond = {Random({rows, config_.video.context_width}), Random({rows, config_.audio.context_width})};
    PerModality<LatentState> state;
    state.video = {.layout = {.grid = kVideo, .padded = 24}, .z = Random({24, config_.video.in_channels})};
    std::memset(state.video.z.Rows(kVideo, 24).raw(), 0, state.video.z.Rows(kVideo, 24).bytes());
    state.audio = {.layout = {.grid = kAudio, .padded = kAudio}, .z = Random({kAudio, config_.audio.in_channels})};
    state.audio.frozen = options.audio == Options::kFrozen;
    if (options.audio == Options::kMaskedWhole) {
      state.audio.mask = Floats(kAudio, 0.0f);
      state.audio.clean = state.audio.z;
    }
    const Floats sound = ToFloats(state.audio.z);
    state.video.mask = mask;
    state.video.clean = Random({kVideo, config_.video.in_channels});
    if (clean != nullptr) *clean = ToFloats(state.video.clean);
    exec.ops.Scale(state.video.clean, options.clean_scale, state.video.clean);
    KINORA_ASSIGN_OR_RETURN(const VelocityModel model, VelocityModel::Prepare(exec, *transformer_, inputs));
    const DenoiseSpec spec{.passes = {Pass::kCond},
                           .sigmas = options.steps == 1 ? Floats{1.0f, 0.0f} : Floats{1.0f, 0.5f, 0.0f}};
    KINORA_RETURN_IF_ERROR(Denoise(exec, model, spec, graphs_, state, [](int64_t) { return absl::OkStatus(); }));
    EXPECT_EQ(ToFloats(state.audio.z) == sound, options.audio != Options::kNoise);
    return ToFloats(state.video.z.Rows(0, kVideo));
  }
  int64_t Channels() const { return config_.video.in_channels; }

  Golden weights_{"transformer_2_3"};
  std::unique_ptr<Backend> backend_ = *OpenBackend("cpu", {});
  std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  Arena arena_{*Buffer::Allocate(64 << 20)};
  NoiseSource noise_{7};
  StepGraphs graphs_;
  TransformerConfig config_;
  std::unique_ptr<Transformer> transformer_;
};

TEST_F(DenoiserTest, AMaskOfOnesChangesNoBit) {
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats without, Run({}, nullptr));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats ones, Run(Floats(kVideo, 1.0f), nullptr));
  EXPECT_TRUE(without == ones);
}

TEST_F(DenoiserTest, TokensOfMaskZeroEndCleanAndTheOthersKnowIt) {
  Floats mask(kVideo, 1.0f), clean;
  std::fill_n(mask.begin(), 6, 0.0f);
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats kept, Run(mask, &clean));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats free, Run({}, nullptr));
  for (int64_t i = 0; i < 6 * Channels(); ++i) ASSERT_NEAR(kept[i], clean[i], 1e-5) << i;
  double moved = 0;
  for (int64_t i = 6 * Channels(); i < kVideo * Channels(); ++i) moved += std::abs(kept[i] - free[i]);
  EXPECT_GT(moved / static_cast<double>(kVideo * Channels()), 1e-3);
}

TEST_F(DenoiserTest, AMaskBetweenMixesPredictionAndCleanLatent) {
  const Floats mask(kVideo, 0.75f);
  Floats clean;
  // A single step to level 0 yields mask·x0 + (1 − mask)·clean, and x0 does not depend on `clean`.
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats one, Run(mask, &clean, {.steps = 1}));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats other, Run(mask, nullptr, {.steps = 1, .clean_scale = 3}));
  for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(other[i] - one[i], 0.25f * 2 * clean[i], 1e-4) << i;
}

TEST_F(DenoiserTest, AFrozenModalityStaysAsItIsAndTheOtherHearsItAtLevelZero) {
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats frozen, Run({}, nullptr, {.audio = Options::kFrozen}));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats masked, Run({}, nullptr, {.audio = Options::kMaskedWhole}));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats noise, Run({}, nullptr));
  EXPECT_TRUE(frozen == masked);
  EXPECT_FALSE(frozen == noise);
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats eager, Run({}, nullptr, {.eager = true, .audio = Options::kFrozen}));
  EXPECT_TRUE(frozen == eager);
}

TEST_F(DenoiserTest, CapturedStepsAreThoseThatRunEagerlyBitForBitAndAreCapturedOnce) {
  Floats mask(kVideo, 1.0f);
  mask[3] = 0.5f;
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats captured, Run(mask, nullptr));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats again, Run(mask, nullptr));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats eager, Run(mask, nullptr, {.eager = true}));
  EXPECT_TRUE(captured == eager);
  EXPECT_TRUE(captured == again);
  EXPECT_EQ(graphs_.captures(), 1);
}

}  // namespace
}  // namespace kinora

// A step of the denoising loop on every backend: the fused op against its definition op by op.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/testing/backends.h"

namespace kinora {
namespace {

using Values = std::vector<float>;

Values Waves(int64_t count, int salt) {
  Values values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = 2 * std::sin(0.31f * static_cast<float>(i % 9973 * 7 + salt));
  return values;
}

// Three passes over a latent. Tokens in the middle are half clean; the others are fully clean or not at all.
struct Case {
  Case(Device& device, int64_t tokens, int64_t channels, bool masked)
      : z(device.Upload(Waves(tokens * channels, 1), {tokens, channels})), sigmas(device.Upload({0.9f, 0.4f}, {2})) {
    prediction = {.v = device.Upload(Waves(3 * tokens * channels, 2), {3 * tokens, channels}),
                  .sigma = sigmas.Rows(0, 1),
                  .weights = device.Upload({-2, 4, -1, 0.7f}, {4}),
                  .cond = 1,
                  .x0 = device.Output(DType::kF32, {tokens, channels})};
    if (!masked) return;
    const Values masks = {1, 0.5f, 0};
    Values table, levels;
    HostTensor row(DType::kI32, {tokens});
    for (const float m : masks) {
      for (const float slot : {m - 1, 0.0f, 1 - m}) table.insert(table.end(), channels, slot);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      row.tensor().data<int32_t>()[t] = static_cast<int32_t>(3 * t / tokens);
      levels.push_back(0.9f * masks[3 * t / tokens]);
    }
    prediction.sigma = device.Upload(levels, {tokens});
    prediction.clean = device.Upload(Waves(tokens * channels, 3), {tokens, channels});
    prediction.mask = {.table = device.Upload(table, {3, 3, channels}), .row = device.Upload(row.tensor())};
  }
  Prediction prediction;
  Tensor z, sigmas;
};

class SamplingOps : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, SamplingOps, testing::ValuesIn(Backends()), BackendName);

TEST_P(SamplingOps, AGuidedStepIsItsDefinition) {
  for (const auto& [tokens, channels] : std::vector<std::pair<int64_t, int64_t>>{{200, 128}, {7, 6}, {1, 8}}) {
    for (const bool masked : {false, true}) {
      Device device(GetParam());
      Case fused(device, tokens, channels, masked), plain(device, tokens, channels, masked);
      device.ops().GuidedEulerStep(fused.prediction, fused.sigmas, fused.z);
      device.ops().Ops::GuidedEulerStep(plain.prediction, plain.sigmas, plain.z);
      EXPECT_TRUE(
          Near(device.Download(fused.prediction.x0).tensor(), device.Download(plain.prediction.x0).tensor(), 1e-6))
          << tokens << " tokens of " << channels << (masked ? ", masked" : "");
      EXPECT_TRUE(Near(device.Download(fused.z).tensor(), device.Download(plain.z).tensor(), 1e-6))
          << tokens << " tokens of " << channels << (masked ? ", masked" : "");
    }
  }
}

}  // namespace
}  // namespace kinora

// Arithmetic of the denoising loop, against its definitions in double precision.
#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

class SamplingTest : public OnAStream {
 protected:
  Floats Combined(const Floats& x0, const Floats& weights, int cond) {
    const int passes = static_cast<int>(weights.size()) - 1;
    const auto n = static_cast<int64_t>(x0.size()) / passes;
    const DeviceArray<float> dx0(x0, stream_), dweights(weights, stream_);
    const DeviceArray<float> out(Floats(n, std::nanf("")), stream_);
    const DeviceArray<SpreadPart> parts(2 * kSpreadParts);
    const GuidedStep args{.v = dx0.data(),
                          .weights = dweights.data(),
                          .x0 = out.data(),
                          .tokens = 1,
                          .channels = n,
                          .passes = passes,
                          .cond = cond,
                          .parts = parts.data()};
    EXPECT_EQ(LaunchGuidedStep(args, stream_), cudaSuccess);
    Floats result = out.Read(stream_);
    EXPECT_EQ(simt::Failure(), "");
    return result;
  }
};

double Deviation(const Floats& x, int64_t begin, int64_t n) {
  double mean = 0, squares = 0;
  for (int64_t i = begin; i < begin + n; ++i) mean += x[i] / static_cast<double>(n);
  for (int64_t i = begin; i < begin + n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return std::sqrt(squares / static_cast<double>(n - 1));
}

TEST_F(SamplingTest, PredictionsShareTheLatentsOfTheirTokens) {
  for (const int64_t channels : {128, 5}) {
    for (const bool per_token : {false, true}) {
      constexpr int64_t kPasses = 3, kTokens = 11;
      const Floats z = Values(kTokens * channels, 1), v = Values(kPasses * kTokens * channels, 2);
      const Floats sigma = Values(kTokens, 3);
      const DeviceArray<float> dz(z, stream_), dv(v, stream_), dsigma(sigma, stream_);
      const DeviceArray<float> out(Floats(v.size(), std::nanf("")), stream_);
      PredictX0 args{.z = dz.data(), .v = dv.data(), .sigma = dsigma.data(), .x0 = out.data(), .passes = kPasses};
      args.tokens = kTokens;
      args.channels = channels;
      args.sigma_per_token = per_token;
      ASSERT_EQ(LaunchPredictX0(args, stream_), cudaSuccess);
      Floats expected(v.size());
      for (size_t i = 0; i < v.size(); ++i) {
        const size_t at = i % z.size();
        const double s = sigma[per_token ? at / channels : 0];
        expected[i] = static_cast<float>(z[at] - s * v[i]);
      }
      ExpectNear(out.Read(stream_), expected, Type::kF32, "x0");
    }
  }
}

TEST_F(SamplingTest, GuidanceIsTheWeightedSumAndTakesTheConditionedDeviation) {
  for (const int64_t n : {2, 7, 64, 1001, 4096, 20000}) {
    for (const Floats& weights : {Floats{1, 0}, {-2, 3, 0}, {-2, 4, -1, 0.7f}, {0.5f, -1, 2, -0.5f, 1}}) {
      const int passes = static_cast<int>(weights.size()) - 1, cond = passes > 1 ? 1 : 0;
      Floats x0 = Values(passes * n, 1);
      for (float& v : x0) v += 2;  // a non-zero mean
      Floats sum(n);
      std::vector<double> exact(n);
      for (int64_t i = 0; i < n; ++i) {
        for (int p = 0; p < passes; ++p) exact[i] += static_cast<double>(weights[p]) * x0[p * n + i];
        sum[i] = static_cast<float>(exact[i]);
      }
      const double r = weights[passes];
      const double factor = r == 0 ? 1 : r * Deviation(x0, cond * n, n) / Deviation(sum, 0, n) + 1 - r;
      for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<float>(exact[i] * factor);
      ExpectNear(Combined(x0, weights, cond), sum, Type::kF32, "guided");
    }
  }
}

TEST_F(SamplingTest, GuidanceLeavesWhatHasNoDeviation) {
  for (const float value : {3.0f, 0.1f}) {
    for (const int64_t n : {1, 5, 5000}) {
      Floats x0 = Values(2 * n, 1);
      std::fill(x0.begin() + n, x0.end(), value);
      const Floats got = Combined(x0, {0, 1, 0.7f}, /*cond=*/0);
      for (const float v : got) ASSERT_EQ(v, value) << n;
    }
  }
}

TEST_F(SamplingTest, TheOrderOfBlocksChangesNoBit) {
  const Floats x0 = Values(3 * 20000, 1);
  simt::Seed(1, false);
  const Floats first = Combined(x0, {-2, 4, -1, 0.7f}, 1);
  for (const uint64_t seed : {2, 3}) {
    simt::Seed(seed);
    const Floats other = Combined(x0, {-2, 4, -1, 0.7f}, 1);
    EXPECT_EQ(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)), 0) << "seed " << seed;
  }
}

// A denoising step with all options (a level per token, and clean latents under a mask of three values), or with one
// level and no mask.
struct WholeStep {
  static constexpr int kPasses = 3, kCond = 1;
  WholeStep(int64_t tokens, int64_t channels, bool masked, float rescale)
      : tokens(tokens), channels(channels), n(tokens * channels), masked(masked), weights{-2, 4, -1, rescale} {
    for (const float m : masks) {
      for (const float slot : {m - 1, 0.0f, 1 - m}) table.insert(table.end(), channels, slot);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      row.push_back(static_cast<int32_t>(t % 3));
      levels.push_back(masked ? masks[t % 3] * 0.9f : 0.9f);
    }
  }
  void Compute(Floats& x0, Floats& stepped) const {
    std::vector<double> exact(n);
    Floats sum(n), cond(n);
    for (int64_t i = 0; i < n; ++i) {
      for (int p = 0; p < kPasses; ++p) {
        const double predicted = z[i] - levels[i / channels] * double{v[p * n + i]};
        exact[i] += weights[p] * predicted;
        if (p == kCond) cond[i] = static_cast<float>(predicted);
      }
      sum[i] = static_cast<float>(exact[i]);
    }
    const double r = n == 1 ? 0 : weights[kPasses];
    const double factor = r == 0 ? 1 : r * Deviation(cond, 0, n) / Deviation(sum, 0, n) + 1 - r;
    for (int64_t i = 0; i < n; ++i) {
      const double mask = masked ? masks[i / channels % 3] : 1;
      const double x = mask * exact[i] * factor + (1 - mask) * clean[i];
      x0.push_back(static_cast<float>(x));
      stepped.push_back(static_cast<float>(z[i] + (z[i] - x) / 0.9 * (0.4 - 0.9)));
    }
  }
  int64_t tokens, channels, n;
  bool masked;
  Floats weights, masks{1, 0.25f, 0}, table, levels, z = Values(n, 1), v = Values(kPasses * n, 2), clean = Values(n, 3);
  std::vector<int32_t> row;
};

TEST_F(SamplingTest, AWholeStepIsTwoKernels) {
  for (const WholeStep& c : {WholeStep(40, 128, false, 0.7f), WholeStep(40, 128, true, 0.7f),
                             WholeStep(600, 24, true, 0.7f), WholeStep(9, 5, true, 0.7f), WholeStep(9, 128, true, 0),
                             WholeStep(9, 5, false, 0), WholeStep(1, 1, true, 0.7f)}) {
    const DeviceArray<float> z(c.z, stream_), v(c.v, stream_), clean(c.clean, stream_), table(c.table, stream_),
        levels(c.levels, stream_), weights(c.weights, stream_), sigmas({0.9f, 0.4f}, stream_),
        x0(Floats(c.n, std::nanf("")), stream_);
    const DeviceArray<int32_t> row(c.row, stream_);
    const DeviceArray<SpreadPart> parts(2 * kSpreadParts);
    GuidedStep args{.v = v.data(), .weights = weights.data(), .sigma = levels.data(), .x0 = x0.data()};
    args.tokens = c.tokens, args.channels = c.channels, args.passes = c.kPasses, args.cond = c.kCond;
    args.sigma_per_token = c.masked;
    args.sigmas = sigmas.data(), args.z = z.data(), args.parts = parts.data();
    if (c.masked) {
      args.clean = clean.data();
      args.blend = {.table = table.data(), .row = row.data(), .tokens = c.tokens, .slots = 3};
    }
    simt::ResetCounts();
    ASSERT_EQ(LaunchGuidedStep(args, stream_), cudaSuccess);
    EXPECT_EQ(simt::Counted().launches, 2u);
    Floats expected_x0, expected_z;
    c.Compute(expected_x0, expected_z);
    ExpectNear(x0.Read(stream_), expected_x0, Type::kF32, "x0");
    ExpectNear(z.Read(stream_), expected_z, Type::kF32, "z");
  }
}

// The mean is a thousand times the deviation; summing the squares of uncentred values would lose the deviation.
TEST_F(SamplingTest, ADeviationThatIsSmallBesideTheMeanIsKept) {
  Floats x0 = Values(2 * 5000, 1);
  for (float& v : x0) v = 1000 + v;
  const Floats sum(x0.begin() + 5000, x0.end());
  const double factor = Deviation(x0, 0, 5000) / Deviation(sum, 0, 5000);
  Floats expected;
  for (const float v : sum) expected.push_back(static_cast<float>(v * factor));
  ExpectNear(Combined(x0, {0, 1, 1}, /*cond=*/0), expected, Type::kF32, "guided");
}

TEST_F(SamplingTest, AStepGoesTheWayBetweenTheLevels) {
  const DeviceArray<float> sigmas({0.9f, 0.4f}, stream_);
  for (const size_t n : {1, 64, 777}) {
    const Floats x0 = Values(n, 1), z = Values(n, 2);
    const DeviceArray<float> dx0(x0, stream_), dz(z, stream_);
    ASSERT_EQ(LaunchEulerStep(dx0.data(), sigmas.data(), dz.data(), static_cast<int64_t>(n), stream_), cudaSuccess);
    Floats expected(n);
    for (size_t i = 0; i < n; ++i) {
      const double slope = (static_cast<double>(z[i]) - x0[i]) / 0.9f;
      expected[i] = static_cast<float>(z[i] + slope * (static_cast<double>(0.4f) - 0.9f));
    }
    ExpectNear(dz.Read(stream_), expected, Type::kF32, "z");
  }
}

TEST_F(SamplingTest, RefusesWhatIsMissing) {
  const DeviceArray<float> m(Floats(64, 1.0f), stream_);
  const DeviceArray<SpreadPart> parts(2 * kSpreadParts);
  const GuidedStep good{.v = m.data(),
                        .weights = m.data(),
                        .x0 = m.data(),
                        .tokens = 2,
                        .channels = 4,
                        .passes = 2,
                        .cond = 0,
                        .parts = parts.data()};
  GuidedStep empty = good, other = good, none = good, cramped = good, lost = good, unmasked = good;
  empty.tokens = 0;
  other.cond = 2;
  none.passes = 0;
  cramped.parts = nullptr;
  lost.sigma = m.data();  // requires z, which is missing
  unmasked.clean = m.data();
  for (const GuidedStep& bad : {empty, other, none, cramped, lost, unmasked}) {
    EXPECT_EQ(LaunchGuidedStep(bad, stream_), cudaErrorInvalidValue);
  }
  EXPECT_EQ(LaunchPredictX0({.z = m.data(), .v = m.data(), .sigma = m.data(), .x0 = m.data()}, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(LaunchEulerStep(m.data(), nullptr, m.data(), 8, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchEulerStep(m.data(), m.data(), m.data(), 0, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels

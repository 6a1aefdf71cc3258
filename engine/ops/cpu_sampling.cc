// The denoising loop's arithmetic on contiguous float32 tensors. Sums run in one fixed order in double, so every rank
// gets the same bits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/op_checks.h"

namespace kinora {

void CpuOps::PredictX0(const Tensor& z, const Tensor& v, const Tensor& sigma, Tensor x0) {
  const int64_t tokens = z.rows(), channels = z.width();
  KINORA_CHECK(v.rows() % tokens == 0 && v.width() == channels && x0.elements() == v.elements())
      << v.shape().ToString();
  KINORA_CHECK(sigma.elements() == 1 || sigma.elements() == tokens) << sigma.shape().ToString();
  KINORA_CHECK(z.contiguous() && v.contiguous() && x0.contiguous());
  stream_.Enqueue([this, z, v, sigma, x0, tokens, channels] {
    const bool per_token = sigma.elements() == tokens;
    ForRows(v.rows(), channels * 12, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t token = row % tokens;
        const float s = sigma.data<float>()[per_token ? token : 0];
        const float* zr = z.data<float>() + token * channels;
        const float* vr = v.data<float>() + row * channels;
        float* o = x0.data<float>() + row * channels;
        for (int64_t i = 0; i < channels; ++i) o[i] = zr[i] - s * vr[i];
      }
    });
  });
}

namespace {

// Sums run over fixed parts, whatever the number of threads: in order within a part, then over the parts.
constexpr int64_t kParts = 128;

template <typename Term>
double SumOfPart(int64_t begin, int64_t end, Term term) {
  constexpr int64_t kChains = 8;  // independent additions
  double sums[kChains] = {};
  int64_t i = begin;
  for (; i + kChains <= end; i += kChains) {
    for (int64_t j = 0; j < kChains; ++j) sums[j] += term(i + j);
  }
  for (; i < end; ++i) sums[0] += term(i);
  double sum = 0;
  for (const double chain : sums) sum += chain;
  return sum;
}

}  // namespace

double CpuOps::StandardDeviation(const float* x, int64_t n) {  // unbiased
  const int64_t part = (n + kParts - 1) / kParts;
  const auto sum = [&](auto term) {
    double parts[kParts];
    ForRows(kParts, part * 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        parts[i] = SumOfPart(std::min(n, i * part), std::min(n, (i + 1) * part), term);
      }
    });
    return std::accumulate(parts, parts + kParts, 0.0);
  };
  const double mean = sum([x](int64_t i) { return static_cast<double>(x[i]); }) / static_cast<double>(n);
  const double squares = sum([x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  return std::sqrt(squares / static_cast<double>(n - 1));
}

void CpuOps::CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) {
  CheckGuidance(x0, weights, cond, out);
  const int64_t n = out.elements(), passes = weights.elements() - 1;
  stream_.Enqueue([this, x0, weights, cond, out, n, passes] {
    const float* in = x0.data<float>();
    const float* weight = weights.data<float>();
    const float rescale = weight[passes];
    float* o = out.data<float>();
    ForRows(n, 4 * (passes + 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float sum = weight[0] * in[i];
        for (int p = 1; p < passes; ++p) sum += weight[p] * in[p * n + i];
        o[i] = sum;
      }
    });
    if (rescale == 0.0f || n <= 1) return;
    const double deviation = StandardDeviation(o, n);
    if (deviation == 0) return;  // a constant has no deviation to scale; the reference divides by it and gets NaN
    const double ratio = StandardDeviation(in + cond * n, n) / deviation;
    const float factor = static_cast<float>(rescale * ratio + (1.0 - rescale));
    ForRows(n, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) o[i] *= factor;
    });
  });
}

void CpuOps::EulerStep(const Tensor& x0, const Tensor& sigmas, Tensor z) {
  KINORA_CHECK(x0.elements() == z.elements() && x0.contiguous() && z.contiguous() && sigmas.elements() == 2);
  stream_.Enqueue([this, x0, sigmas, z] {
    const float sigma = sigmas.data<float>()[0], next = sigmas.data<float>()[1];
    const float* x = x0.data<float>();
    float* o = z.data<float>();
    ForRows(z.elements(), 12, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) o[i] += (o[i] - x[i]) / sigma * (next - sigma);
    });
  });
}

}  // namespace kinora

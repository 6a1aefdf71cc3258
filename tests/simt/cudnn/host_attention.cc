// Works in blocks of queries. The lanes of the first product are queries; those of the second are columns of the
// values. Compiled with -O3 and without sanitizers.
#include "tests/simt/cudnn/host_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace kinora::simt {
namespace {

constexpr int64_t kLanes = 16;

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t ToBf16(float value) {
  if (std::isnan(value)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::vector<float> Widened(const uint16_t* from, int64_t rows, int64_t stride, int64_t width) {
  std::vector<float> to(rows * width);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < width; ++c) to[i * width + c] = FromBf16(from[i * stride + c]);
  }
  return to;
}

// Attention of a block of one head's queries, from `first` on, over all keys.
class Block {
 public:
  Block(const CudnnAttention& a, const float* bias, int64_t first)
      : a_(a),
        bias_(bias),
        first_(first),
        rows_(std::min(kLanes, a.queries - first)),
        logits_(a.keys * kLanes),
        sums_(kLanes * a.head_width) {}

  void Run(const uint16_t* q, const float* k, const float* v, uint16_t* out) {
    Multiply(q, k);
    for (int64_t lane = 0; lane < rows_; ++lane) Soften(lane);
    const int64_t d = a_.head_width;
    for (int64_t lane = 0; lane < rows_; ++lane) {
      float* const sums = &sums_[lane * d];
      for (int64_t j = 0; j < a_.keys; ++j) {
        const float weight = logits_[j * kLanes + lane];
        if (weight == 0.0f) continue;
        for (int64_t c = 0; c < d; ++c) sums[c] += weight * v[j * d + c];
      }
      for (int64_t c = 0; c < d; ++c) out[(first_ + lane) * a_.out.row + c] = ToBf16(sums[c] / denominator_[lane]);
    }
  }

 private:
  void Multiply(const uint16_t* q, const float* k) {
    const int64_t d = a_.head_width;
    std::vector<float> columns(d * kLanes);
    for (int64_t lane = 0; lane < rows_; ++lane) {
      for (int64_t c = 0; c < d; ++c) columns[c * kLanes + lane] = FromBf16(q[(first_ + lane) * a_.q.row + c]);
    }
    for (int64_t j = 0; j < a_.keys; ++j) {
      float sum[kLanes] = {};
      for (int64_t c = 0; c < d; ++c) {
        const float key = k[j * d + c];
        for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += key * columns[c * kLanes + lane];
      }
      std::copy_n(sum, kLanes, &logits_[j * kLanes]);
    }
  }

  // Turns logits into weights. A query that sees no key gets 0 / 0, as the library leaves the result undefined.
  void Soften(int64_t lane) {
    const int64_t query = first_ + lane;
    const auto seen = [&](int64_t j) {
      return !a_.causal || (j <= query && (a_.window == 0 || query - j < a_.window));
    };
    float maximum = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < a_.keys; ++j) {
      float& logit = logits_[j * kLanes + lane];
      logit = logit * a_.scale + (bias_ != nullptr ? bias_[query * a_.bias_stride + j] : 0.0f);
      if (seen(j)) maximum = std::max(maximum, logit);
    }
    float denominator = 0.0f;
    for (int64_t j = 0; j < a_.keys; ++j) {
      float& weight = logits_[j * kLanes + lane];
      weight = seen(j) ? std::exp(weight - maximum) : 0.0f;
      denominator += weight;
      weight = FromBf16(ToBf16(weight));
    }
    denominator_[lane] = denominator;
  }

  const CudnnAttention& a_;
  const float* const bias_;
  const int64_t first_, rows_;
  std::vector<float> logits_, sums_;  // [keys, lanes], [lanes, width]
  float denominator_[kLanes] = {};
};

}  // namespace

void Attend(const CudnnAttention& a, absl::Span<void* const> operands) {
  const auto* const q = static_cast<const uint16_t*>(operands[0]);
  const auto* const k = static_cast<const uint16_t*>(operands[1]);
  const auto* const v = static_cast<const uint16_t*>(operands[2]);
  auto* const out = static_cast<uint16_t*>(operands[3]);
  const auto* const bias = a.bias ? static_cast<const float*>(operands[4]) : nullptr;
  const int64_t group = a.heads / a.kv_heads;
  for (int64_t b = 0; b < a.batch; ++b) {
    for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      const std::vector<float> keys = Widened(k + b * a.k.batch + kv_head * a.k.head, a.keys, a.k.row, a.head_width);
      const std::vector<float> values = Widened(v + b * a.v.batch + kv_head * a.v.head, a.keys, a.v.row, a.head_width);
      for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        for (int64_t first = 0; first < a.queries; first += kLanes) {
          Block(a, bias, first)
              .Run(q + b * a.q.batch + h * a.q.head, keys.data(), values.data(),
                   out + b * a.out.batch + h * a.out.head);
        }
      }
    }
  }
}

}  // namespace kinora::simt

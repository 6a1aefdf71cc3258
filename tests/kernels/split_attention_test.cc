// Attention over chunks of keys and the merge of its results, against the definition in double precision.
#include "kernels/split_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/control.h"
#include "tests/simt/device_buffer.h"

namespace kinora::kernels {
namespace {

using simt::DeviceArray;
using Floats = std::vector<float>;

uint16_t ToBits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float FromBits(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

struct Form {
  std::string name;
  int64_t queries, keys;
  int width, heads = 2, kv_heads = 2, chunks = 2;
  Type type = Type::kBf16, v_type = type;
  int64_t key_end = -1, gap = 0;
  int batch = 1, kv_batches = 1;
  bool causal = false, bias = false;
  int64_t window = 0;
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
  int64_t end() const { return key_end < 0 ? keys : key_end; }
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

int SequenceOf(const Form& f, int batch) { return (batch + 1) % f.kv_batches; }

// Rows that are `gap` elements apart on the device and contiguous on the host.
class Operand {
 public:
  Operand(int64_t rows, int64_t width, int64_t gap, Type type, int salt, cudaStream_t stream)
      : width_(width), stride_(width + gap), type_(type), values_(rows * width) {
    Floats wide(rows * stride_, std::nanf(""));
    std::vector<uint16_t> narrow(rows * stride_, 0xffff);
    for (int64_t i = 0; i < rows * width; ++i) {
      const float value = 1.5f * std::sin(static_cast<float>(0.7 * static_cast<double>(i % 9973) + salt));
      const int64_t at = i / width * stride_ + i % width;
      narrow[at] = ToBits(value);
      wide[at] = value;
      values_[i] = type == Type::kBf16 ? FromBits(narrow[at]) : value;
    }
    if (type == Type::kBf16) narrow_ = std::make_unique<DeviceArray<uint16_t>>(narrow, stream);
    if (type == Type::kF32) wide_ = std::make_unique<DeviceArray<float>>(wide, stream);
  }
  Rows rows() const {
    return {narrow_ != nullptr ? static_cast<void*>(narrow_->data()) : wide_->data(), stride_, type_};
  }
  const float* at(int64_t row, int64_t column) const { return &values_[row * width_ + column]; }

 private:
  const int64_t width_, stride_;
  const Type type_;
  Floats values_;
  std::unique_ptr<DeviceArray<uint16_t>> narrow_;
  std::unique_ptr<DeviceArray<float>> wide_;
};

class SplitAttentionTest : public testing::TestWithParam<Form> {
 protected:
  SplitAttentionTest() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~SplitAttentionTest() override { cudaStreamDestroy(stream_); }
  cudaStream_t stream_ = nullptr;
};

struct Inputs {
  Operand q, k, v;
  Floats bias;
};

// Σ weight · v, maximum and denominator of one query over keys [begin, end), and the number of keys it sees.
std::vector<double> Part(const Form& f, const Inputs& in, int batch, int64_t query, int head, int64_t begin,
                         int64_t end) {
  const int64_t column = static_cast<int64_t>(head / (f.heads / f.kv_heads)) * f.width;
  const int64_t first = SequenceOf(f, batch) * f.keys;
  const float* const q = in.q.at(batch * f.queries + query, static_cast<int64_t>(head) * f.width);
  std::vector<double> logits(end - begin, -1e300), part(f.width + 2, 0.0);
  double& maximum = part[f.width] = kNoLogit;
  for (int64_t j = begin; j < end; ++j) {
    if (f.causal && (j > query || (f.window > 0 && query - j >= f.window))) continue;
    double dot = 0;
    for (int c = 0; c < f.width; ++c) dot += static_cast<double>(q[c]) * in.k.at(first + j, column)[c];
    logits[j - begin] = f.scale() * dot + (f.bias ? in.bias[query * f.keys + j] : 0.0f);
    maximum = std::max(maximum, logits[j - begin]);
  }
  for (int64_t j = begin; j < end; ++j) {
    if (logits[j - begin] < -1e299) continue;
    const double weight = std::exp(logits[j - begin] - maximum);
    part[f.width + 1] += weight;
    for (int c = 0; c < f.width; ++c) part[c] += weight * in.v.at(first + j, column)[c];
  }
  return part;
}

TEST_P(SplitAttentionTest, IsItsDefinitionAndMergesToTheWhole) {
  const Form& f = GetParam();
  const int64_t q_rows = f.batch * f.queries, kv_rows = f.kv_batches * f.keys;
  const int64_t q_width = static_cast<int64_t>(f.heads) * f.width,
                kv_width = static_cast<int64_t>(f.kv_heads) * f.width;
  Inputs in{{q_rows, q_width, f.gap, f.type, 1, stream_},
            {kv_rows, kv_width, f.gap, f.type, 2, stream_},
            {kv_rows, kv_width, f.gap, f.v_type, 3, stream_},
            Floats(f.queries * f.keys)};
  for (size_t i = 0; i < in.bias.size(); ++i) in.bias[i] = std::sin(0.3f * static_cast<float>(i));
  const DeviceArray<float> bias(in.bias, stream_);
  const int64_t part = f.width + 2;
  const DeviceArray<float> chunks(Floats(f.chunks * q_rows * f.heads * part, std::nanf("")), stream_);
  const DeviceArray<float> merged(Floats(q_rows * q_width, std::nanf("")), stream_);
  SplitAttention attention{.q = in.q.rows(), .k = in.k.rows(), .v = in.v.rows(), .out = chunks.data()};
  attention.batch = f.batch, attention.queries = f.queries, attention.keys = f.keys;
  attention.heads = f.heads, attention.kv_heads = f.kv_heads, attention.width = f.width;
  attention.chunks = f.chunks, attention.key_end = f.end(), attention.scale = static_cast<float>(f.scale());
  attention.causal = f.causal, attention.window = f.window;
  for (int b = 0; b < f.batch; ++b) attention.kv_batch |= static_cast<uint64_t>(SequenceOf(f, b)) << (8 * b);
  if (f.bias) attention.bias = bias.data(), attention.bias_stride = f.keys;
  ASSERT_EQ(LaunchSplitAttention(attention, stream_), cudaSuccess);
  MergeSplits merge{.chunks = chunks.data(), .out = {merged.data(), q_width, Type::kF32}, .rows = q_rows};
  merge.count = f.chunks, merge.heads = f.heads, merge.width = f.width;
  ASSERT_EQ(LaunchMergeSplits(merge, stream_), cudaSuccess);
  const Floats got_merged = merged.Read(stream_);
  Floats logits(q_rows * f.heads);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = 3 * std::sin(0.7f * static_cast<float>(i));
  const DeviceArray<float> gates(logits, stream_);
  merge.logits = gates.data();
  ASSERT_EQ(LaunchMergeSplits(merge, stream_), cudaSuccess);
  const Floats got = chunks.Read(stream_), got_gated = merged.Read(stream_);
  ASSERT_EQ(simt::Failure(), "");
  const int64_t chunk_keys = f.keys / f.chunks;
  for (int64_t row = 0; row < q_rows; ++row) {
    const int batch = static_cast<int>(row / f.queries);
    const int64_t query = row % f.queries;
    for (int head = 0; head < f.heads; ++head) {
      for (int chunk = 0; chunk < f.chunks; ++chunk) {
        const int64_t begin = chunk * chunk_keys, end = std::max(begin, std::min(f.end(), begin + chunk_keys));
        const std::vector<double> expected = Part(f, in, batch, query, head, begin, end);
        const float* const found = &got[((chunk * q_rows + row) * f.heads + head) * part];
        for (int c = 0; c < part; ++c) {
          ASSERT_NEAR(found[c], expected[c], 2e-5 * (1 + std::abs(expected[c])))
              << "row " << row << " head " << head << " chunk " << chunk << " column " << c;
        }
      }
      const std::vector<double> whole = Part(f, in, batch, query, head, 0, f.end());
      for (int c = 0; c < f.width; ++c) {
        const double denominator = whole[f.width + 1];
        ASSERT_NEAR(got_merged[row * q_width + head * f.width + c], denominator > 0 ? whole[c] / denominator : 0, 2e-5)
            << "row " << row << " head " << head << " column " << c;
        const float gate = 2 / (1 + std::exp(-logits[row * f.heads + head]));
        const int64_t at = row * q_width + head * f.width + c;
        ASSERT_NEAR(got_gated[at], gate * got_merged[at], 1e-6 * (1 + std::abs(got_merged[at])))
            << "row " << row << " head " << head << " column " << c;
      }
    }
  }
}

constexpr Type kF32 = Type::kF32;
const Form kForms[] = {
    {.name = "Width8", .queries = 5, .keys = 40, .width = 8},
    {.name = "Width40", .queries = 3, .keys = 80, .width = 40, .chunks = 4},
    {.name = "Width64TwoTilesOfQueries", .queries = 70, .keys = 80, .width = 64, .heads = 1, .kv_heads = 1},
    {.name = "Width64Float", .queries = 4, .keys = 70, .width = 64, .type = kF32},
    {.name = "Width128", .queries = 2, .keys = 72, .width = 128},
    {.name = "Width128Float", .queries = 2, .keys = 72, .width = 128, .type = kF32},
    {.name = "Width256", .queries = 3, .keys = 40, .width = 256},
    {.name = "Width256Float", .queries = 35, .keys = 40, .width = 256, .heads = 1, .kv_heads = 1, .type = kF32},
    {.name = "RowsApart", .queries = 3, .keys = 40, .width = 16, .gap = 24},
    {.name = "UnalignedRows", .queries = 3, .keys = 40, .width = 16, .gap = 3},
    {.name = "UnalignedFloatRows", .queries = 3, .keys = 40, .width = 16, .type = kF32, .gap = 3},
    {.name = "Mixture", .queries = 3, .keys = 40, .width = 16, .type = kF32, .v_type = Type::kBf16},
    {.name = "EightChunksOfWhichSomeAreEmpty", .queries = 3, .keys = 80, .width = 24, .chunks = 8, .key_end = 33},
    {.name = "NoKeys", .queries = 3, .keys = 16, .width = 24, .key_end = 0},
    {.name = "SharedKeyHeads", .queries = 3, .keys = 40, .width = 16, .heads = 6, .kv_heads = 2},
    {.name = "BatchesOverSequences", .queries = 3, .keys = 40, .width = 16, .key_end = 25, .batch = 3, .kv_batches = 2},
    {.name = "Causal", .queries = 40, .keys = 40, .width = 16, .causal = true},
    {.name = "CausalWindow", .queries = 90, .keys = 40, .width = 16, .chunks = 1, .causal = true, .window = 7},
    {.name = "Bias", .queries = 7, .keys = 40, .width = 16, .bias = true},
};
INSTANTIATE_TEST_SUITE_P(All, SplitAttentionTest, testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

TEST(SplitAttention, RefusesWhatItCannotDo) {
  float memory = 0;
  SplitAttention a{.q = {&memory, 8, kF32}, .k = {&memory, 8, kF32}, .v = {&memory, 8, kF32}, .out = &memory};
  a.batch = a.queries = a.heads = a.kv_heads = 1, a.keys = 4, a.width = 8, a.chunks = 2, a.key_end = 4;
  SplitAttention width = a, wide = a, chunks = a, batch = a;
  width.width = 12, wide.width = 264, chunks.chunks = 3, batch.batch = 9;
  for (const SplitAttention& wrong : {width, wide, chunks, batch}) {
    EXPECT_EQ(LaunchSplitAttention(wrong, nullptr), cudaErrorInvalidValue);
  }
  EXPECT_EQ(
      LaunchMergeSplits({.chunks = &memory, .out = {&memory, 8, kF32}, .rows = 1, .count = 1, .heads = 1, .width = 264},
                        nullptr),
      cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels

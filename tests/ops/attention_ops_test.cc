// Attention on every backend against its definition in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "tests/testing/backends.h"
#include "tests/testing/op_values.h"

namespace kinora {
namespace {

std::vector<uint32_t> Bits(absl::Span<const float> values) {
  std::vector<uint32_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), [](float v) { return std::bit_cast<uint32_t>(v); });
  return bits;
}

struct AttentionCase {
  std::string name;
  int64_t queries, keys, head_width;
  int heads = 2, kv_heads = 2;
  bool causal = false;
  int64_t window = 0, key_length = -1;
  bool bias = false;
  int64_t gap = 0;  // columns before q, k, v and out in their rows
  std::vector<int8_t> sequences = {0, 1, 1};
};
void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

AttentionOptions OptionsOf(const AttentionCase& c) {
  AttentionOptions o{.heads = c.heads,
                     .kv_heads = c.kv_heads,
                     .scale = 1.0f / std::sqrt(static_cast<float>(c.head_width)),
                     .batch = static_cast<int>(c.sequences.size()),
                     .kv_batches = *std::max_element(c.sequences.begin(), c.sequences.end()) + 1,
                     .key_length = c.key_length,
                     .causal = c.causal,
                     .window = c.window};
  std::copy(c.sequences.begin(), c.sequences.end(), o.kv_batch.begin());
  return o;
}

// Computes one query of one head; zeros if the query sees no key.
void ReferenceRow(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o, int64_t d, int64_t b,
                  int64_t i, int h, float* out) {
  const int64_t nq = q.rows() / o.batch, nk = k.rows() / o.kv_batches, row = o.kv_batch[b] * nk;
  const int64_t end = o.key_length >= 0 ? o.key_length : nk, column = h / (o.heads / o.kv_heads) * d;
  int64_t first = 0, last = end;
  if (o.causal) last = std::min(end, i + 1);
  if (o.causal && o.window > 0) first = std::max<int64_t>(0, i - o.window + 1);
  std::vector<double> weight(std::max<int64_t>(0, last - first)), values(d);
  double max = -1e300, sum = 0;
  for (int64_t j = first; j < last; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < d; ++c) dot += At(q, b * nq + i, h * d + c) * At(k, row + j, column + c);
    weight[j - first] = dot * o.scale + (o.bias.defined() ? At(o.bias, i, j) : 0);
    max = std::max(max, weight[j - first]);
  }
  for (int64_t j = first; j < last; ++j) {
    const double p = std::exp(weight[j - first] - max);
    sum += p;
    for (int64_t c = 0; c < d; ++c) values[c] += p * At(v, row + j, column + c);
  }
  for (int64_t c = 0; c < d; ++c) out[c] = sum > 0 ? static_cast<float>(values[c] / sum) : 0.0f;
}

HostTensor ReferenceAttention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o, int64_t d) {
  HostTensor out(DType::kF32, {q.rows(), q.width()});
  const int64_t queries = q.rows() / o.batch;
  for (int64_t row = 0; row < q.rows(); ++row) {
    for (int h = 0; h < o.heads; ++h) {
      ReferenceRow(q, k, v, o, d, row / queries, row % queries, h, &out.f32()[(row * o.heads + h) * d]);
    }
  }
  return out;
}

class AttentionSizes : public testing::TestWithParam<std::tuple<TestedBackend, AttentionCase>> {};

// In f32, in bf16, and in bf16 with f32 results.
TEST_P(AttentionSizes, EqualTheDefinition) {
  const AttentionCase& c = std::get<1>(GetParam());
  Device device(std::get<0>(GetParam()));
  struct Types {
    DType in, out;
    double tolerance;
  };
  for (const Types& types : {Types{DType::kF32, DType::kF32, 2e-6}, Types{DType::kBF16, DType::kF32, 4e-3},
                             Types{DType::kBF16, DType::kBF16, 8e-3}}) {
    AttentionOptions o = OptionsOf(c);
    const int64_t width = c.heads * c.head_width, kv_width = c.kv_heads * c.head_width;
    const HostTensor q = Random(types.in, {o.batch * c.queries, c.gap + width}, 1, 2.0f);
    const HostTensor kv = Random(types.in, {o.kv_batches * c.keys, c.gap + 2 * kv_width}, 2, 1.5f);
    const HostTensor bias = Random(DType::kF32, {c.queries, c.keys}, 4);
    const auto query = [&](const Tensor& t) { return t.Columns(c.gap, c.gap + width); };
    const auto key = [&](const Tensor& t) { return t.Columns(c.gap, c.gap + kv_width); };
    const auto value = [&](const Tensor& t) { return t.Columns(c.gap + kv_width, c.gap + 2 * kv_width); };
    if (c.bias) o.bias = bias.tensor();
    const HostTensor expected =
        ReferenceAttention(query(q.tensor()), key(kv.tensor()), value(kv.tensor()), o, c.head_width);
    if (c.bias) o.bias = device.Upload(bias.tensor());
    const Tensor device_q = device.Upload(q.tensor()), device_kv = device.Upload(kv.tensor());
    const Tensor out = device.Output(types.out, q.tensor().shape());
    device.ops().Attention(query(device_q), key(device_kv), value(device_kv), o, query(out));
    EXPECT_TRUE(Near(Behind(device.Download(out), c.gap).tensor(), expected.tensor(), types.tolerance))
        << DTypeName(types.in) << " to " << DTypeName(types.out);
  }
}

std::vector<AttentionCase> Cases() {
  return {
      {.name = "Small", .queries = 5, .keys = 9, .head_width = 8},
      {.name = "BiasAndLength", .queries = 70, .keys = 600, .head_width = 64, .key_length = 531, .bias = true},
      {.name = "Causal", .queries = 400, .keys = 400, .head_width = 16, .kv_heads = 1, .causal = true},
      {.name = "CausalWindow",
       .queries = 600,
       .keys = 600,
       .head_width = 24,
       .kv_heads = 1,
       .causal = true,
       .window = 37},
      {.name = "Width128", .queries = 3, .keys = 300, .head_width = 128, .heads = 1, .kv_heads = 1, .key_length = 257},
      {.name = "ManyQueries", .queries = 1600, .keys = 30, .head_width = 8, .heads = 1, .kv_heads = 1, .bias = true},
      {.name = "Width256",
       .queries = 40,
       .keys = 500,
       .head_width = 256,
       .heads = 1,
       .kv_heads = 1,
       .causal = true,
       .window = 300},
      {.name = "Width512", .queries = 20, .keys = 270, .head_width = 512, .heads = 16, .kv_heads = 1, .sequences = {0}},
      {.name = "Width512Causal",
       .queries = 260,
       .keys = 260,
       .head_width = 512,
       .heads = 4,
       .kv_heads = 1,
       .causal = true,
       .window = 130,
       .sequences = {0}},
      {.name = "Width40", .queries = 17, .keys = 33, .head_width = 40},
      {.name = "RowsApart", .queries = 20, .keys = 33, .head_width = 16, .gap = 8},
      {.name = "UnalignedRows", .queries = 20, .keys = 33, .head_width = 16, .gap = 3},
      {.name = "OneSequenceForAll", .queries = 9, .keys = 33, .head_width = 16, .sequences = {0, 0, 0, 0}},
      {.name = "ASequenceEach", .queries = 9, .keys = 33, .head_width = 16, .sequences = {0, 1, 2, 3}},
      {.name = "EverySecondSequence", .queries = 9, .keys = 33, .head_width = 16, .sequences = {0, 2, 4, 1}},
      {.name = "Guidance", .queries = 9, .keys = 33, .head_width = 16, .key_length = 30, .sequences = {0, 1, 0, 0}},
      {.name = "SixHeadsOnTwo", .queries = 9, .keys = 33, .head_width = 16, .heads = 6, .kv_heads = 2},
      {.name = "QueriesThatSeeNothing", .queries = 60, .keys = 20, .head_width = 16, .causal = true, .window = 5},
      {.name = "CausalBias", .queries = 30, .keys = 40, .head_width = 16, .causal = true, .window = 9, .bias = true},
      {.name = "OneKey", .queries = 30, .keys = 40, .head_width = 16, .key_length = 1},
      {.name = "LongPrompt",
       .queries = 2050,
       .keys = 2050,
       .head_width = 8,
       .heads = 2,
       .kv_heads = 1,
       .causal = true,
       .sequences = {0}},
      {.name = "LongPromptWithWindow",
       .queries = 2050,
       .keys = 2050,
       .head_width = 8,
       .heads = 1,
       .kv_heads = 1,
       .causal = true,
       .window = 1000,
       .sequences = {0}},
  };
}

INSTANTIATE_TEST_SUITE_P(On, AttentionSizes,
                         testing::Combine(testing::ValuesIn(Backends()), testing::ValuesIn(Cases())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
                         });

class Attentions : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Attentions, testing::ValuesIn(Backends()), BackendName);

TEST_P(Attentions, WithoutKeysAreZero) {
  Device device(GetParam());
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor q = device.Upload(Random(dtype, {6, 32}, 1).tensor()),
                 k = device.Upload(Random(dtype, {9, 32}, 2).tensor());
    const Tensor out = device.Output(dtype, {6, 32});
    device.ops().Attention(q, k, k, {.heads = 2, .key_length = 0}, out);
    const HostTensor values = Behind(device.Download(out), 0);
    for (int64_t i = 0; i < 6 * 32; ++i) EXPECT_EQ(At(values.tensor(), i / 32, i % 32), 0.0);
  }
}

TEST_P(Attentions, OfAMixtureAreComputedInFloat32) {
  Device device(GetParam());
  const HostTensor q = Random(DType::kF32, {2 * 7, 64}, 1), k = Random(DType::kBF16, {30, 32}, 2),
                   v = Random(DType::kF32, {30, 32}, 3);
  const AttentionOptions o{.heads = 4, .kv_heads = 2, .scale = 0.25f, .batch = 2};
  const HostTensor expected = ReferenceAttention(q.tensor(), k.tensor(), v.tensor(), o, 16);
  const Tensor wide = device.Output(DType::kF32, {14, 64}), narrow = device.Output(DType::kBF16, {14, 64});
  for (const Tensor& out : {wide, narrow}) {
    device.ops().Attention(device.Upload(q.tensor()), device.Upload(k.tensor()), device.Upload(v.tensor()), o, out);
  }
  EXPECT_TRUE(Near(device.Download(wide).tensor(), expected.tensor(), 2e-6));
  EXPECT_TRUE(Near(Behind(device.Download(narrow), 0).tensor(), expected.tensor(), 4e-3));
}

TEST_P(Attentions, ARowsBitsDoNotDependOnTheOtherRowsOrOnThreads) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Device one(GetParam(), 1), four(GetParam(), 4);
    const HostTensor q = Random(dtype, {1000, 64}, 1), k = Random(dtype, {700, 64}, 2), v = Random(dtype, {700, 64}, 3);
    const auto run = [&](Device& device, const Tensor& queries) {
      const Tensor out = device.Output(DType::kF32, queries.shape());
      device.ops().Attention(device.Upload(queries), device.Upload(k.tensor()), device.Upload(v.tensor()),
                             {.heads = 2, .scale = 0.2f}, out);
      return device.Floats(out);
    };
    const std::vector<float> all = run(four, q.tensor()), part = run(one, q.tensor().Rows(37, 138));
    EXPECT_EQ(Bits(part), Bits({all.data() + 37 * 64, 101 * 64})) << DTypeName(dtype);
  }
}

TEST_P(Attentions, ChunksOfKeysMergeToTheWhole) {
  Device device(GetParam());
  const Tensor q = device.Upload(Random(DType::kF32, {2 * 7, 32}, 1).tensor()),
               k = device.Upload(Random(DType::kF32, {2 * 40, 32}, 2).tensor()),
               v = device.Upload(Random(DType::kF32, {2 * 40, 32}, 3).tensor());
  const AttentionOptions o{
      .heads = 2, .kv_heads = 2, .scale = 0.5f, .batch = 2, .kv_batches = 2, .kv_batch = {0, 1}, .key_length = 33};
  const Tensor whole = device.Output(DType::kF32, {14, 32}), merged = device.Output(DType::kF32, {14, 32}),
               chunks = device.Output(DType::kF32, {8, 14, 2, 18});
  device.ops().Attention(q, k, v, o, whole);
  device.ops().AttentionChunks(q, k, v, o, chunks);
  device.ops().MergeChunks(chunks, merged);
  EXPECT_TRUE(Near(device.Download(merged).tensor(), device.Download(whole).tensor(), 1e-6));
}

// Compares the fused op with its definition on the same backend.
TEST_P(Attentions, MergedChunksAreGatedByHead) {
  Device device(GetParam());
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor chunks = device.Upload(Random(DType::kF32, {8, 14, 2, 18}, 1).tensor()),
                 logits = device.Upload(Random(DType::kF32, {14, 2}, 2).tensor());
    const Tensor fused = device.Output(dtype, {14, 32}), plain = device.Output(dtype, {14, 32});
    device.ops().MergeChunksThenGateHeads(chunks, logits, fused);
    device.ops().Ops::MergeChunksThenGateHeads(chunks, logits, plain);
    const double tolerance = dtype == DType::kF32 ? 2e-6 : 1.6e-2;  // the definition rounds twice
    EXPECT_TRUE(Near(device.Download(fused).tensor(), device.Download(plain).tensor(), tolerance));
  }
}

}  // namespace
}  // namespace kinora

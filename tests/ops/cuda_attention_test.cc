// The CUDA backend's choice of attention implementation, and its number of calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/simt/control.h"
#include "tests/testing/backends.h"

namespace kinora {
namespace {

class CudaAttention : public testing::Test {
 protected:
  CudaAttention() : device_(Backends().back()) {}

  Tensor Filled(DType dtype, const Shape& shape, int salt) {
    HostTensor t(DType::kF32, shape);
    for (int64_t i = 0; i < shape.elements(); ++i) t.f32()[i] = std::sin(0.7f * static_cast<float>(i % 9973 + salt));
    const Tensor wide = device_.Upload(t.tensor()), out = device_.Output(dtype, shape);
    device_.ops().stream().Copy(wide, out);
    return out;
  }
  // Number of kernels and library calls for one attention of 8 queries and 24 keys, with heads of width 16.
  uint64_t Launches(DType dtype, const std::vector<int8_t>& sequences, AttentionOptions o = {}, int64_t gap = 0) {
    o.heads = 2;
    o.batch = static_cast<int>(sequences.size());
    o.kv_batches = 4;
    std::copy(sequences.begin(), sequences.end(), o.kv_batch.begin());
    const Tensor q = Filled(dtype, {8 * o.batch, 32 + gap}, 1).Columns(gap, 32 + gap),
                 k = Filled(dtype, {4 * 24, 32}, 2);
    const Tensor out = device_.Output(dtype, {8 * o.batch, 32});
    EXPECT_TRUE(device_.ops().stream().Synchronize().ok());
    simt::ResetCounts();
    device_.ops().Attention(q, k, k, o, out);
    const uint64_t launches = simt::Counted().launches;
    EXPECT_TRUE(device_.ops().stream().Synchronize().ok());
    return launches;
  }

  Device device_;
};

TEST_F(CudaAttention, IsOneCallOfCudnnPerRunOfSequences) {
  EXPECT_EQ(Launches(DType::kBF16, {0, 1, 2, 3}), 1u);
  EXPECT_EQ(Launches(DType::kBF16, {1, 3}), 1u);
  EXPECT_EQ(Launches(DType::kBF16, {2, 2, 2}), 1u);
  EXPECT_EQ(Launches(DType::kBF16, {0, 1, 0, 0}), 2u);
  EXPECT_EQ(Launches(DType::kBF16, {0, 1}, {.key_length = 17}), 1u);
}

TEST_F(CudaAttention, IsTwoProductsAroundASoftmaxWhereCudnnHasNoEngineOrNoTime) {
  EXPECT_EQ(Launches(DType::kF32, {0}), 3u);
  EXPECT_EQ(Launches(DType::kBF16, {0}, {.causal = true}), 3u);
  EXPECT_EQ(Launches(DType::kBF16, {0}, {}, /*gap=*/1), 3u);
}

TEST_F(CudaAttention, TakesAsManyQueriesAtATimeAsHaveRoom) {
  // 3,000 · 23,000 logits of four bytes exceed the scratch memory.
  const Tensor q = Filled(DType::kF32, {3000, 8}, 1), k = Filled(DType::kF32, {23000, 8}, 2);
  const Tensor all = device_.Output(DType::kF32, {3000, 8}), last = device_.Output(DType::kF32, {500, 8});
  ASSERT_TRUE(device_.ops().stream().Synchronize().ok());
  simt::ResetCounts();
  device_.ops().Attention(q, k, k, {.heads = 1}, all);
  EXPECT_EQ(simt::Counted().launches, 2 * 3u);
  device_.ops().Attention(q.Rows(2500, 3000), k, k, {.heads = 1}, last);
  EXPECT_TRUE(Near(device_.Floats(last), device_.Download(all).tensor().Rows(2500, 3000), 0));
}

TEST_F(CudaAttention, FirstMetInsideACaptureReplaysAsItRuns) {
  const Tensor q = Filled(DType::kBF16, {40, 48}, 1), k = Filled(DType::kBF16, {56, 48}, 2);
  const Tensor captured = device_.Output(DType::kBF16, {40, 48}), run = device_.Output(DType::kBF16, {40, 48});
  const AttentionOptions o{.heads = 2, .scale = 0.2f};
  ASSERT_TRUE(device_.ops().stream().Synchronize().ok());
  auto graph = device_.ops().stream().Capture([&] { device_.ops().Attention(q, k, k, o, captured); });
  ASSERT_TRUE(graph.ok()) << graph.status();
  (*graph)->Replay();
  device_.ops().Attention(q, k, k, o, run);
  EXPECT_TRUE(Near(device_.Download(captured).tensor(), device_.Download(run).tensor(), 0));
}

}  // namespace
}  // namespace kinora

// Calls that cuDNN should take and does not: counted, logged once per shape, and rejected above a size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/fallbacks.h"
#include "engine/ops/cuda/fallbacks.h"
#include "tests/testing/backends.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int64_t CountOf(const std::string& op, const std::string& reason) {
  for (const FallbackCount& each : FallbackCounts()) {
    if (each.op == op && each.reason == reason) return each.count;
  }
  return -1;
}

TEST(Fallbacks, HaveCountsFromTheStart) {
  const Fallbacks fallbacks;
  for (const char* op : {"attention", "convolution"}) {
    for (const char* reason : {"refused", "alignment", "size"}) EXPECT_GE(CountOf(op, reason), 0) << op << reason;
  }
}

TEST(Fallbacks, AreLoggedOncePerShapeAndCountedEachTime) {
  Fallbacks fallbacks;
  const Fallback fallback{.op = Fallback::Op::kConvolution,
                          .reason = Fallback::Reason::kRefused,
                          .shape = "[1, 2, 3, 8]",
                          .values = 17,
                          .why = "no engine\nengine 1: no"};
  const int64_t before = CountOf("convolution", "refused");
  testing::internal::CaptureStderr();
  EXPECT_THAT(fallbacks.Take(fallback), IsOk());
  const std::string first = testing::internal::GetCapturedStderr();
  EXPECT_THAT(first, AllOf(HasSubstr("cuda_fallback op=convolution reason=refused"), HasSubstr("values=17"),
                           HasSubstr("no engine"), testing::Not(HasSubstr("engine 1"))));
  testing::internal::CaptureStderr();
  EXPECT_THAT(fallbacks.Take(fallback), IsOk());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(CountOf("convolution", "refused"), before + 2);
}

TEST(Fallbacks, AreRejectedWhereTheyCannotBeMeant) {
  Fallbacks fallbacks(100);
  Fallback fallback{.shape = "6144 queries", .values = 100, .why = "no NVRTC"};
  EXPECT_THAT(fallbacks.Take(fallback), IsOk());
  ++fallback.values;
  EXPECT_THAT(fallbacks.Take(fallback), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                 AllOf(HasSubstr("attention of 6144 queries"), HasSubstr("no NVRTC"),
                                                       HasSubstr("kinora doctor"))));
}

// The ops on the simulated device. Operands without memory: nothing that reads them is enqueued.
class CudaFallbacks : public testing::Test {
 protected:
  static Tensor Nowhere(const Shape& shape, int64_t address) {
    return Tensor(DType::kBF16, shape, reinterpret_cast<void*>(address));
  }
  Device device_{Cuda()};
};

TEST_F(CudaFallbacks, OfAttentionWithUnalignedQueriesAreCounted) {
  const Tensor q = device_.Output(DType::kBF16, {8, 33}).Columns(1, 33), k = device_.Output(DType::kBF16, {8, 32});
  const int64_t before = CountOf("attention", "alignment");
  device_.ops().Attention(q, k, k, {.heads = 2}, device_.Output(DType::kBF16, {8, 32}));
  EXPECT_THAT(device_.ops().stream().Synchronize(), IsOk());
  EXPECT_EQ(CountOf("attention", "alignment"), before + 1);
}

TEST_F(CudaFallbacks, OfAttentionWithWideHeadsAreCountedAndNamed) {
  const Tensor q = device_.Output(DType::kBF16, {8, 1024}), k = device_.Output(DType::kBF16, {8, 512});
  const int64_t before = CountOf("attention", "refused");
  testing::internal::CaptureStderr();
  device_.ops().Attention(q, k, k, {.heads = 2, .kv_heads = 1}, device_.Output(DType::kBF16, {8, 1024}));
  EXPECT_THAT(device_.ops().stream().Synchronize(), IsOk());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("2 heads of 512, 8 queries"), HasSubstr("heads wider than 256")));
  EXPECT_EQ(CountOf("attention", "refused"), before + 1);
}

TEST_F(CudaFallbacks, OfLongAttentionFailTheStream) {
  const Tensor q = Nowhere({20000, 32}, 0x10000000002), k = Nowhere({20000, 32}, 0x10000000000);
  device_.ops().Attention(q, k, k, {.heads = 2}, k);
  EXPECT_THAT(device_.ops().stream().Synchronize(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("2 heads of 16, 20000 queries, 20000 keys")));
}

TEST_F(CudaFallbacks, OfConvolutionsAreCountedOrFailTheStream) {
  const Weight w = *device_.ops().PrepareWeight(HostTensor(DType::kBF16, {8, 3, 8}).tensor(), nullptr, DType::kBF16);
  const ConvOptions options{.height = {.kernel = 3, .before = 1, .after = 1}};
  const Tensor small = device_.Output(DType::kBF16, {1, 4, 5, 9}).Columns(1, 9);
  const int64_t before = CountOf("convolution", "alignment");
  device_.ops().Conv(small, w, options, device_.Output(DType::kBF16, {1, 4, 5, 8}));
  EXPECT_THAT(device_.ops().stream().Synchronize(), IsOk());
  EXPECT_EQ(CountOf("convolution", "alignment"), before + 1);
  const Tensor large = Nowhere({1, 4096, 4096, 8}, 0x10000000002);
  device_.ops().Conv(large, w, options, large);
  EXPECT_THAT(device_.ops().stream().Synchronize(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("convolution of ")));
}

TEST_F(CudaFallbacks, AreNotTheFormsThatProductsAreMeantFor) {
  const std::vector<FallbackCount> before = FallbackCounts();
  const Tensor q = device_.Output(DType::kF32, {8, 32}), bf16_q = device_.Output(DType::kBF16, {8, 32});
  device_.ops().Attention(q, q, q, {.heads = 2}, device_.Output(DType::kF32, {8, 32}));
  device_.ops().Attention(bf16_q, bf16_q, bf16_q, {.heads = 2, .causal = true}, device_.Output(DType::kBF16, {8, 32}));
  device_.ops().Attention(bf16_q, bf16_q, bf16_q, {.heads = 2}, device_.Output(DType::kBF16, {8, 32}));
  EXPECT_THAT(device_.ops().stream().Synchronize(), IsOk());
  const std::vector<FallbackCount> after = FallbackCounts();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i].count, before[i].count) << after[i].op << after[i].reason;
}

}  // namespace
}  // namespace kinora

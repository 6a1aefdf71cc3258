// Weights on the simulated device: their layout, and what remains after a failed preparation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/ops/cuda/cuda_weight.h"
#include "tests/simt/control.h"
#include "tests/testing/backends.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

float Value(int64_t matrix, int64_t row, int64_t column) {
  return static_cast<float>((matrix * 31 + row * 7 + column * 3) % 1013) * 0.37f - 150.0f;
}

// [count, out, in] matrices of Value in either dtype.
struct Source {
  int64_t out, in;
  int count = 1;
  DType dtype = DType::kF32;
  int64_t add = 0;          // added to a matrix's number
  int64_t fails_from = -1;  // first row that fails to read

  absl::Status Read(int64_t begin, int64_t end, void* rows) const {
    if (fails_from >= 0 && end > fails_from) return absl::DataLossError(absl::StrCat("rows from ", begin));
    int64_t i = 0;
    for (int n = 0; n < count; ++n) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t column = 0; column < in; ++column, ++i) {
          const float value = Value(n + add, row, column);
          if (dtype == DType::kF32) {
            static_cast<float*>(rows)[i] = value;
          } else {
            static_cast<bf16*>(rows)[i] = bf16(value);
          }
        }
      }
    }
    return absl::OkStatus();
  }
};

class CudaWeights : public testing::Test {
 protected:
  CudaWeights() : backend_(*OpenBackend("cuda", {.threads = 3})) {}
  ~CudaWeights() override {
    simt::Restore();
    simt::Seed(1);
  }

  absl::StatusOr<std::vector<Weight>> Prepare(const Source& source, const Tensor* bias, DType dtype) {
    const auto read = [&](int64_t begin, int64_t end, void* rows) { return source.Read(begin, end, rows); };
    return backend_->ops().PrepareWeights(
        {.out = source.out, .in = source.in, .count = source.count, .dtype = source.dtype, .read = read}, bias, dtype);
  }
  template <typename T>
  std::vector<T> Read(const Buffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    backend_->ops().stream().CopyToHost(buffer.View(DType::kU8, {buffer.bytes()}), values.data());
    EXPECT_THAT(backend_->ops().stream().Synchronize(), IsOk());
    return values;
  }
  void ExpectMatrix(const Weight& w, const Source& source, int64_t matrix);
  int64_t Free() const {
    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    return static_cast<int64_t>(free_bytes);
  }

  std::unique_ptr<Backend> backend_;
};

void CudaWeights::ExpectMatrix(const Weight& w, const Source& source, int64_t matrix) {
  const CudaWeight& stored = CudaWeight::Of(w);
  const int64_t each = DTypeSize(w.dtype());
  ASSERT_EQ(stored.stride * each % 16, 0);
  const std::vector<uint8_t> bytes = Read<uint8_t>(stored.matrix);
  for (int64_t row = 0; row < source.out; ++row) {
    for (int64_t column = 0; column < stored.stride; ++column) {
      const float value = column < source.in ? Value(matrix + source.add, row, column) : 0.0f;
      const bf16 narrow(value);
      const float as_read = source.dtype == DType::kBF16 ? static_cast<float>(narrow) : value;
      const void* const expected = w.dtype() == DType::kBF16 ? static_cast<const void*>(&narrow) : &as_read;
      ASSERT_EQ(std::memcmp(bytes.data() + (row * stored.stride + column) * each, expected, each), 0)
          << "matrix " << matrix << " row " << row << " column " << column;
    }
  }
}

TEST_F(CudaWeights, LieRowAfterRowWithZerosBetweenInEveryDtype) {
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kBF16}) {
      for (const int64_t in : {5, 1029, 1032}) {
        const Source source{.out = in == 5 ? 9 : 1100, .in = in, .count = 2, .dtype = from};  // runs of about 500 rows
        const auto weights = Prepare(source, nullptr, to);
        ASSERT_THAT(weights, IsOk());
        for (int n = 0; n < source.count; ++n) ExpectMatrix((*weights)[n], source, n);
      }
    }
  }
}

TEST_F(CudaWeights, RowsAreReadIntoPinnedMemoryThatCopiesHaveLeft) {
  simt::Seed(1, /*random_order=*/false);         // nothing is copied before it must be
  const Source source{.out = 5000, .in = 1032};  // more runs of rows than reader threads
  const auto weights = Prepare(source, nullptr, DType::kF32);
  ASSERT_THAT(weights, IsOk());
  ExpectMatrix(weights->front(), source, 0);
}

TEST_F(CudaWeights, TakeTheBytesOfTheirLayoutAndABiasInEachDtypeThatProductsAdd) {
  const Source source{.out = 10, .in = 7, .count = 2};
  std::vector<float> values(10, 1.00390625f);
  const Tensor bias(DType::kF32, {10}, values.data());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto weights = Prepare(source, &bias, dtype);
    ASSERT_THAT(weights, IsOk());
    const WeightLayout& layout = *backend_->traits().weights;
    EXPECT_EQ(weights->front().bytes(), layout.Bytes(dtype, 10, 1, 7) + layout.BiasBytes(dtype, 10));
    EXPECT_EQ(weights->back().bytes(), layout.Bytes(dtype, 10, 1, 7));
    const CudaWeight& stored = CudaWeight::Of(weights->front());
    EXPECT_EQ(Read<float>(stored.bias), values);
    if (dtype == DType::kF32) continue;
    for (const uint16_t bits : Read<uint16_t>(stored.bias_bf16)) EXPECT_EQ(bits, bf16(values[0]).bits);
  }
}

TEST_F(CudaWeights, AreRewrittenWhereTheyLie) {
  Source source{.out = 40, .in = 13, .count = 2};
  const auto weights = Prepare(source, nullptr, DType::kBF16);
  ASSERT_THAT(weights, IsOk());
  const void* const address = CudaWeight::Of(weights->front()).matrix.data();
  source.add = 5;
  const auto read = [&](int64_t begin, int64_t end, void* rows) { return source.Read(begin, end, rows); };
  WeightStorage* storage[] = {(*weights)[0].storage().get(), (*weights)[1].storage().get()};
  simt::Seed(1, /*random_order=*/false);  // nothing runs before the host waits for it
  simt::ResetCounts();
  ASSERT_THAT(backend_->ops().RewriteWeights({.out = 40, .in = 13, .count = 2, .read = read}, DType::kBF16, storage),
              IsOk());
  EXPECT_EQ(simt::Counted().kernels, 2u) << "a rewrite is done when it returns";
  EXPECT_EQ(CudaWeight::Of(weights->front()).matrix.data(), address);
  for (int n = 0; n < 2; ++n) ExpectMatrix((*weights)[n], source, n);
}

TEST_F(CudaWeights, TheFirstRowThatCannotBeReadIsNamedAndNothingIsLeft) {
  const int64_t before = Free();
  const Source source{.out = 4000, .in = 2048, .fails_from = 700};
  EXPECT_THAT(Prepare(source, nullptr, DType::kBF16),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("rows from 512")));
  EXPECT_EQ(Free(), before);
}

TEST_F(CudaWeights, WithoutMemoryNothingIsLeft) {
  const Source source{.out = 64, .in = 100, .count = 2};
  std::vector<float> values(64);
  const Tensor bias(DType::kF32, {64}, values.data());
  const int64_t before = Free();
  for (int after = 0; after < 4; ++after) {
    simt::FailCall("cudaMalloc", cudaErrorMemoryAllocation, after);
    EXPECT_THAT(Prepare(source, &bias, DType::kBF16),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("for a")))
        << after;
    EXPECT_EQ(Free(), before) << after;
  }
  simt::FailCall("cudaHostAlloc", cudaErrorMemoryAllocation, 1);
  EXPECT_THAT(Prepare(source, &bias, DType::kBF16),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the rows of weights on their way")));
  EXPECT_EQ(Free(), before);
  EXPECT_THAT(Prepare(source, &bias, DType::kBF16), IsOk());  // a later attempt succeeds
}

TEST_F(CudaWeights, AFailedCopyOrLayoutFailsTheWeightAlone) {
  const Source source{.out = 64, .in = 100};
  const int64_t before = Free();
  simt::FailCall("kernel", cudaErrorInvalidValue);
  EXPECT_THAT(Prepare(source, nullptr, DType::kBF16),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("a weight's layout")));
  simt::FailCall("cudaMemcpyAsync", cudaErrorInvalidValue);
  EXPECT_THAT(Prepare(source, nullptr, DType::kBF16), StatusIs(absl::StatusCode::kInternal, HasSubstr("a weight")));
  EXPECT_EQ(Free(), before);
  const auto weights = Prepare(source, nullptr, DType::kBF16);
  ASSERT_THAT(weights, IsOk());
  ExpectMatrix(weights->front(), source, 0);
}

}  // namespace
}  // namespace kinora

// The kernel that completes a matrix product, in all forms, against its definition in double precision.
#include "kernels/finish_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

double Activated(NormActivation activation, double v) {
  if (activation == NormActivation::kSilu) return v / (1 + std::exp(-v));
  if (activation == NormActivation::kNone) return v;
  return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
}

struct Form {
  int64_t rows, width, gap;
  Type y, out;
  NormActivation activation;
  bool bias, add;
};

void Expect(const Form& f) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  Floats y(f.rows * f.width), before(y.size()), bias(f.width);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = Rounded(std::sin(0.7f * static_cast<float>(i)) * 3, f.y);
    before[i] = Rounded(std::cos(0.2f * static_cast<float>(i)), f.out);
  }
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1f * static_cast<float>(i % 13);
  {
    const Matrix from(y, f.rows, f.width, f.gap, f.y, stream), to(before, f.rows, f.width, f.gap, f.out, stream);
    const DeviceArray<float> added(bias, stream);
    ASSERT_EQ(LaunchFinishProduct({.rows = f.rows,
                                   .width = f.width,
                                   .y = from.rows(),
                                   .bias = f.bias ? added.data() : nullptr,
                                   .activation = f.activation,
                                   .add = f.add,
                                   .out = to.rows()},
                                  stream),
              cudaSuccess);
    const Floats out = to.Read();
    for (size_t i = 0; i < out.size(); ++i) {
      const double v = Activated(f.activation, y[i] + (f.bias ? bias[i % f.width] : 0.0)) + (f.add ? before[i] : 0.0);
      ASSERT_NEAR(out[i], v, f.out == Type::kBf16 ? 0.004 * std::abs(v) + 1e-6 : 2e-6) << i;
    }
  }
  cudaStreamDestroy(stream);
}

TEST(FinishProduct, AddsActivatesAndSumsInEveryForm) {
  for (const Type y : {Type::kF32, Type::kBf16}) {
    for (const Type out : {Type::kF32, Type::kBf16}) {
      for (const auto activation : {NormActivation::kNone, NormActivation::kSilu, NormActivation::kGeluTanh}) {
        for (int bits = 0; bits < 4; ++bits) {
          Expect({7, 72, 8, y, out, activation, (bits & 1) != 0, (bits & 2) != 0});
          Expect({3, 41, 2, y, out, activation, (bits & 1) != 0, (bits & 2) != 0});
        }
      }
    }
  }
}

TEST(FinishProduct, NamesTheFirstRowThatIsNotFinite) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  for (const int64_t width : {72, 41}) {
    for (const int64_t bad : {-1, 5, 6}) {
      Floats y(7 * width, 1.5f);
      if (bad >= 0) y[7 * width - 1] = NAN, y[bad * width + 3] = INFINITY;
      const Matrix from(y, 7, width, 8, Type::kF32, stream), to(y, 7, width, 8, Type::kBf16, stream);
      const DeviceArray<int32_t> row(std::vector<int32_t>{7}, stream);
      ASSERT_EQ(LaunchFinishProduct(
                    {.rows = 7, .width = width, .y = from.rows(), .out = to.rows(), .bad_row = row.data()}, stream),
                cudaSuccess);
      EXPECT_EQ(row.Read(stream)[0], bad >= 0 ? bad : 7);
    }
  }
  cudaStreamDestroy(stream);
}

TEST(FinishProduct, RefusesNothingToDo) { EXPECT_EQ(LaunchFinishProduct({}, nullptr), cudaErrorInvalidValue); }

}  // namespace
}  // namespace kinora::kernels

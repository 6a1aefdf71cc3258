// Matmul with every epilogue, dtype and view, on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/testing/backends.h"
#include "tests/testing/op_values.h"

namespace kinora {
namespace {

float Rounded(float value, DType dtype) { return dtype == DType::kF32 ? value : static_cast<float>(bf16(value)); }

float At(const Tensor& t, int64_t i) {
  return t.dtype() == DType::kF32 ? t.data<float>()[i] : static_cast<float>(t.data<bf16>()[i]);
}

double Activated(Activation activation, double v) {
  if (activation == Activation::kSilu) return v / (1 + std::exp(-v));
  if (activation == Activation::kNone) return v;
  return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
}

struct Form {
  int64_t rows, in, out;
  int64_t before = 0, after = 0;  // columns beside x and out in wider tensors
  DType x = DType::kF32, weight = DType::kF32, result = DType::kF32;
  Activation activation = Activation::kNone;
  Accumulate accumulate = Accumulate::kNo;
  bool bias = false;
  int64_t period = 1;  // rows after which the gate repeats

  std::string Name() const {
    return std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) + "+" + std::to_string(before) +
           " " + std::string(DTypeName(x)) + "·" + std::string(DTypeName(weight)) + ">" +
           std::string(DTypeName(result)) + " activation " + std::to_string(static_cast<int>(activation)) +
           " accumulate " + std::to_string(static_cast<int>(accumulate)) + (bias ? " bias" : "");
  }
};

constexpr int64_t kSlots = 2;

struct Operands {
  explicit Operands(const Form& f)
      : x(Random(f.x, {f.rows, f.before + f.in + f.after}, 1)),
        matrix(Random(DType::kF32, {f.out, f.in}, 2, 1.0f / std::sqrt(static_cast<float>(f.in)))),
        bias(Random(DType::kF32, {f.out}, 3)),
        residual(Random(f.result, {f.rows, f.before + f.out + f.after}, 4)),
        table(Random(DType::kF32, {2, kSlots, f.out}, 5)),
        row(DType::kI32, {f.period}) {
    for (int64_t i = 0; i < f.period; ++i) row.tensor().data<int32_t>()[i] = static_cast<int32_t>(i * 5 % 3 % 2);
  }
  double Expected(const Form& f, int64_t r, int64_t o) const {
    double sum = f.bias ? At(bias.tensor(), o) : 0;
    for (int64_t i = 0; i < f.in; ++i) {
      const float value = At(x.tensor(), r * (f.before + f.in + f.after) + f.before + i);
      sum += double{Rounded(value, f.weight)} * Rounded(At(matrix.tensor(), o * f.in + i), f.weight);
    }
    const double y = Activated(f.activation, sum);
    if (f.accumulate == Accumulate::kNo) return y;
    const double old = At(residual.tensor(), r * (f.before + f.out + f.after) + f.before + o);
    if (f.accumulate == Accumulate::kAdd) return old + y;
    const int32_t table_row = row.tensor().data<int32_t>()[r % f.period];
    return old + y * At(table.tensor(), (table_row * kSlots + 1) * f.out + o);
  }

  HostTensor x, matrix, bias, residual, table, row;
};

// Checks the result and every element beside it.
void Expect(Device& device, const Form& f) {
  const Operands host(f);
  const Tensor wide_x = device.Upload(host.x.tensor()), wide_out = device.Upload(host.residual.tensor());
  const Weight w = *device.ops().PrepareWeight(host.matrix.tensor(), f.bias ? &host.bias.tensor() : nullptr, f.weight);
  MatmulOptions options{.activation = f.activation, .accumulate = f.accumulate};
  if (f.accumulate == Accumulate::kGated) {
    options.gate = {{.table = device.Upload(host.table.tensor()), .row = device.Upload(host.row.tensor())}, 1};
  }
  device.ops().Matmul(wide_x.Columns(f.before, f.before + f.in), w, options,
                      wide_out.Columns(f.before, f.before + f.out));
  const HostTensor result = device.Download(wide_out);
  const int64_t width = f.before + f.out + f.after;
  const bool wide = f.result == DType::kF32 && f.weight == DType::kF32;
  const double rounded_once = f.accumulate == Accumulate::kGated ? 0.003 : 0.012;  // otherwise biases are bf16 too
  const double tolerance = f.result == DType::kF32 ? (wide ? 3e-6 : 2e-5) : rounded_once;
  for (int64_t r = 0; r < f.rows; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const float value = At(result.tensor(), r * width + c);
      if (c < f.before || c >= f.before + f.out) {
        ASSERT_EQ(value, At(host.residual.tensor(), r * width + c)) << f.Name() << ": written beside the result";
        continue;
      }
      const double expected = host.Expected(f, r, c - f.before);
      ASSERT_NEAR(value, expected, tolerance * (1 + std::abs(expected))) << f.Name() << " row " << r << " column " << c;
    }
  }
}

class MatmulForms : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, MatmulForms, testing::ValuesIn(Backends()), BackendName);

TEST_P(MatmulForms, EveryDtypeActivationAndSum) {
  Device device(GetParam());
  for (const DType x : {DType::kF32, DType::kBF16}) {
    for (const DType weight : {DType::kF32, DType::kBF16}) {
      for (const DType result : {DType::kF32, DType::kBF16}) {
        for (const auto activation : {Activation::kNone, Activation::kSilu, Activation::kGeluTanh}) {
          for (const auto accumulate : {Accumulate::kNo, Accumulate::kAdd, Accumulate::kGated}) {
            for (const bool bias : {false, true}) {
              Expect(device, {6, 24, 40, 0, 0, x, weight, result, activation, accumulate, bias, 3});
            }
          }
        }
      }
    }
  }
}

TEST_P(MatmulForms, ViewsWhoseRowsLieApartAndAreNotAligned) {
  Device device(GetParam());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto accumulate : {Accumulate::kNo, Accumulate::kAdd, Accumulate::kGated}) {
      for (const int64_t before : {1, 3, 8}) {
        Expect(device, {.rows = 9,
                        .in = 23,
                        .out = 37,
                        .before = before,
                        .after = 2,
                        .x = dtype,
                        .weight = dtype,
                        .result = dtype,
                        .activation = Activation::kGeluTanh,
                        .accumulate = accumulate,
                        .bias = true,
                        .period = 9});
      }
    }
  }
}

TEST_P(MatmulForms, OneRowAndRowsFarApart) {
  Device device(GetParam());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Expect(device, {.rows = 1, .in = 700, .out = 130, .x = dtype, .weight = dtype, .result = dtype, .bias = true});
    Expect(device, {.rows = 1, .in = 1, .out = 1, .x = dtype, .weight = dtype, .result = dtype});
    Expect(
        device,
        {.rows = 3, .in = 16, .out = 8, .before = 16, .after = 99'968, .x = dtype, .weight = dtype, .result = dtype});
  }
}

// Row tiles, depth blocks and column panels are multiples of 6, 12, 16, 32 or 1,024.
TEST_P(MatmulForms, SizesAroundThoseOfTiles) {
  Device device(GetParam());
  const auto expect = [&](int64_t rows, int64_t in, int64_t out) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Expect(device, {.rows = rows, .in = in, .out = out, .x = dtype, .weight = dtype, .bias = true});
    }
  };
  for (const int64_t rows : {1, 6, 12, 15, 16, 17, 31, 32, 33, 48, 65, 97}) expect(rows, 66, 34);
  for (const int64_t in : {1, 2, 15, 16, 30, 31, 32, 33, 62, 64, 1022, 1024, 1026, 1058}) expect(35, in, 18);
  for (const int64_t out : {1, 15, 16, 17, 31, 32, 33, 64, 1025}) expect(18, 34, out);
}

// Memory beyond the end of a row or column holds other values. If they are infinite, they must not enter the result as
// 0 · ∞.
TEST_P(MatmulForms, InfiniteValuesStayInTheirRowsAndColumns) {
  Device device(GetParam());
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t in : {2, 18, 34}) {
    const int64_t rows = 40, out = 70, bad_row = 17, bad_column = 32;
    HostTensor x(DType::kF32, {rows, in}), matrix(DType::kF32, {out, in});
    for (int64_t i = 0; i < rows * in; ++i) x.f32()[i] = i / in == bad_row ? infinity : 1;
    for (int64_t i = 0; i < out * in; ++i) matrix.f32()[i] = i / in == bad_column ? infinity : 2;
    const Weight w = *device.ops().PrepareWeight(matrix.tensor(), nullptr, DType::kBF16);
    const Tensor y = device.Output(DType::kF32, {rows, out});
    device.ops().Matmul(device.Upload(x.tensor()), w, {}, y);
    const std::vector<float> got = device.Floats(y);
    for (int64_t i = 0; i < rows * out; ++i) {
      const bool finite = i / out != bad_row && i % out != bad_column;
      ASSERT_EQ(got[i], finite ? 2.0f * static_cast<float>(in) : infinity) << in << " deep, at " << i;
    }
  }
}

TEST_P(MatmulForms, NoRowsAreNothingToDo) {
  Device device(GetParam());
  const HostTensor matrix = Random(DType::kF32, {4, 8}, 1);
  const Weight w = *device.ops().PrepareWeight(matrix.tensor(), nullptr, DType::kF32);
  const Tensor x = device.Output(DType::kF32, {2, 8}), out = device.Output(DType::kF32, {2, 4});
  device.ops().Matmul(x.Rows(1, 1), w, {}, out.Rows(1, 1));
  EXPECT_TRUE(std::isnan(device.Floats(out)[0]));
}

}  // namespace
}  // namespace kinora

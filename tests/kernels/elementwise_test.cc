// The elementwise kernel in all its forms, against its definition in double precision.
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

using Kind = ElementwiseKind;
constexpr Type kF32 = Type::kF32, kBf16 = Type::kBf16;
constexpr float kFactor = -1.75f;

struct Form {
  std::string name;
  Kind kind;
  int64_t rows = 5, width = 64, gap = 0;
  Type a = kBf16, b = kBf16, out = kBf16;
  int64_t head_width = 16;
  bool in_place = false;
  int64_t first = 0, end = 0;  // rows that are replaced by others
  int64_t second_width() const { return kind == Kind::kGateHeads ? width / head_width : width; }
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

double Gelu(double v) { return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); }

double Define(const Form& f, double a, double b, double scale, double shift) {
  switch (f.kind) {
    case Kind::kFill:
      return kFactor;
    case Kind::kScale:
      return a * kFactor;
    case Kind::kSilu:
      return a / (1 + std::exp(-a));
    case Kind::kGeluTanh:
      return Gelu(a);
    case Kind::kAffine:
      return a * scale + shift;
    case Kind::kAdd:
      return a + b;
    case Kind::kSiluMultiply:
      return a / (1 + std::exp(-a)) * b;
    case Kind::kGeluTanhMultiply:
      return Gelu(a) * b;
    case Kind::kGateHeads:
      return a * 2 / (1 + std::exp(-b));
  }
  return std::nan("");
}

class ElementwiseTest : public OnAStream, public testing::WithParamInterface<Form> {};

TEST_P(ElementwiseTest, IsItsDefinition) {
  const Form& f = GetParam();
  const int64_t count = f.rows * f.width;
  const Floats a = Values(count, 1, f.a), b = Values(f.rows * f.second_width(), 2, f.b);
  const Floats scale = Values(f.width, 3), shift = Values(f.width, 4);
  const Matrix da(a, f.rows, f.width, f.gap, f.a, stream_), db(b, f.rows, f.second_width(), f.gap, f.b, stream_);
  const Matrix dout(Floats(count, std::nanf("")), f.rows, f.width, f.gap, f.out, stream_);
  const DeviceArray<float> dscale(scale, stream_), dshift(shift, stream_);
  Elementwise e{.kind = f.kind, .rows = f.rows, .width = f.width, .a = da.rows(), .b = db.rows(), .out = dout.rows()};
  e.factor = kFactor;
  e.scale = dscale.data();
  e.shift = dshift.data();
  e.head_width = f.head_width;
  if (f.in_place) e.out = e.a;
  const Floats replaced = Values(count, 5, f.a);
  const Matrix replacement(replaced, f.rows, f.width, f.gap, f.a, stream_);
  if (f.end > 0) e.replacement = replacement.rows();
  e.first = f.first, e.end = f.end;
  Floats expected(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i / f.width, column = i % f.width;
    const int64_t at = f.kind == Kind::kGateHeads ? row * f.second_width() + column / f.head_width : i;
    const bool elsewhere = row >= f.first && row < f.end;
    const float first = elsewhere ? replaced[i - f.first * f.width] : a[i];
    expected[i] = static_cast<float>(Define(f, first, b[at], scale[column], shift[column]));
  }
  ASSERT_EQ(LaunchElementwise(e, stream_), cudaSuccess);
  ExpectNear((f.in_place ? da : dout).Read(), expected, f.out, "out");
  EXPECT_EQ(simt::Failure(), "");
}

const Form kForms[] = {
    {.name = "Fill", .kind = Kind::kFill},
    {.name = "FillBesideGaps", .kind = Kind::kFill, .width = 21, .gap = 3, .out = kF32},
    {.name = "Scale", .kind = Kind::kScale},
    {.name = "ScaleToFloat", .kind = Kind::kScale, .out = kF32},
    {.name = "ScaleToBf16", .kind = Kind::kScale, .a = kF32},
    {.name = "ScaleInPlaceBesideGaps", .kind = Kind::kScale, .width = 24, .gap = 8, .in_place = true},
    {.name = "ManyBlocks", .kind = Kind::kScale, .rows = 33, .width = 1000},
    {.name = "Silu", .kind = Kind::kSilu, .a = kF32, .out = kF32},
    {.name = "SiluOdd", .kind = Kind::kSilu, .width = 13},
    {.name = "Gelu", .kind = Kind::kGeluTanh, .a = kF32, .out = kF32},
    {.name = "GeluOdd", .kind = Kind::kGeluTanh, .width = 13, .gap = 1},
    {.name = "Affine", .kind = Kind::kAffine, .a = kF32, .out = kF32},
    {.name = "AffineBf16", .kind = Kind::kAffine, .width = 128, .in_place = true},
    {.name = "AffineOdd", .kind = Kind::kAffine, .width = 7},
    {.name = "Add", .kind = Kind::kAdd, .in_place = true},
    {.name = "AddFloat", .kind = Kind::kAdd, .a = kF32, .b = kF32, .out = kF32, .in_place = true},
    {.name = "AddBf16ToFloat", .kind = Kind::kAdd, .a = kF32, .out = kF32, .in_place = true},
    {.name = "AddFloatToBf16", .kind = Kind::kAdd, .b = kF32},
    {.name = "AddOdd", .kind = Kind::kAdd, .width = 9, .gap = 2},
    {.name = "SiluMultiply", .kind = Kind::kSiluMultiply},
    {.name = "SiluMultiplyOdd", .kind = Kind::kSiluMultiply, .width = 11},
    {.name = "GeluMultiply", .kind = Kind::kGeluTanhMultiply},
    {.name = "GeluMultiplyMixed", .kind = Kind::kGeluTanhMultiply, .a = kF32, .out = kF32},
    {.name = "GeluMultiplyOdd", .kind = Kind::kGeluTanhMultiply, .width = 11},
    {.name = "GateHeads", .kind = Kind::kGateHeads, .in_place = true},
    {.name = "GateHeadsFloatLogits", .kind = Kind::kGateHeads, .width = 256, .b = kF32, .head_width = 128},
    {.name = "GateNarrowHeads", .kind = Kind::kGateHeads, .a = kF32, .b = kF32, .out = kF32, .head_width = 4},
    {.name = "GateHeadsOdd", .kind = Kind::kGateHeads, .width = 15, .gap = 4, .head_width = 5, .in_place = true},
    {.name = "GateHeadsOfReplacedRows", .kind = Kind::kGateHeads, .in_place = true, .first = 1, .end = 3},
    {.name = "GateHeadsOfReplacedFirstRows", .kind = Kind::kGateHeads, .b = kF32, .in_place = true, .end = 2},
    {.name = "GateHeadsOfReplacedOddRows",
     .kind = Kind::kGateHeads,
     .width = 15,
     .gap = 4,
     .a = kF32,
     .out = kF32,
     .head_width = 5,
     .in_place = true,
     .first = 4,
     .end = 5},
};
INSTANTIATE_TEST_SUITE_P(All, ElementwiseTest, testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, ElementwiseRefusesWhatIsMissing) {
  const DeviceArray<float> x(Floats(64, 1.0f), stream_);
  const Rows rows{.data = x.data(), .stride = 32};
  const auto launch = [&](const Elementwise& e) { return LaunchElementwise(e, stream_); };
  EXPECT_EQ(launch({.rows = 0, .width = 32, .a = rows, .out = rows}), cudaErrorInvalidValue);
  EXPECT_EQ(launch({.rows = 2, .width = 32, .out = rows}), cudaErrorInvalidValue);
  EXPECT_EQ(launch({.rows = 2, .width = 32, .a = rows}), cudaErrorInvalidValue);
  EXPECT_EQ(launch({.kind = Kind::kAdd, .rows = 2, .width = 32, .a = rows, .out = rows}), cudaErrorInvalidValue);
  EXPECT_EQ(launch({.kind = Kind::kAffine, .rows = 2, .width = 32, .a = rows, .out = rows}), cudaErrorInvalidValue);
  Elementwise heads{.kind = Kind::kGateHeads, .rows = 2, .width = 32, .a = rows, .b = rows, .out = rows};
  for (const int64_t head_width : {0, 5}) {
    heads.head_width = head_width;
    EXPECT_EQ(launch(heads), cudaErrorInvalidValue) << head_width;
  }
  heads.head_width = 16, heads.end = 1;  // a null pointer to replaced rows, then another type
  EXPECT_EQ(launch(heads), cudaErrorInvalidValue);
  heads.replacement = {.data = x.data(), .stride = 32, .type = kBf16};
  heads.a.type = kF32;
  EXPECT_EQ(launch(heads), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels

// The row norm kernel in all its forms, against its definition in double precision.
#include "kernels/row_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

struct Form {
  std::string name;
  int64_t rows, width, gap = 0;
  Type x = Type::kBf16, out = Type::kBf16;
  bool residual = false, weight = false, with_base = true;
  NormKind kind = NormKind::kRms;
  NormActivation activation = NormActivation::kNone;
  int modulated = 1;   // number of modulated outputs; 0: one output, not modulated
  int64_t tokens = 1;  // row i uses row i mod tokens of the table
  int64_t first_row = 0, y_rows = kAllRows, first_rows = kAllRows, second_rows = kAllRows;
  bool gated = true;
  int64_t skip = 0;  // misalignment of the weight and the table, in floats
  int outputs() const { return std::max(1, modulated); }
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

constexpr int64_t kSlots = 4;
constexpr int kGateSlot = 3;
constexpr int kTableRows = 3;

// A modulation on the host.
struct Tables {
  Floats table, base;
  std::vector<int32_t> row;
  int64_t width;

  explicit Tables(const Form& f) : table(Values(kTableRows * kSlots * f.width, 4)), width(f.width) {
    if (f.with_base) base = Values(kSlots * f.width, 5);
    for (int64_t i = 0; i < f.tokens; ++i) row.push_back(static_cast<int32_t>((i * 2 + 1) % kTableRows));
  }
  double At(int64_t i, int slot, int64_t column) const {
    const int64_t r = row[i % static_cast<int64_t>(row.size())];
    return (base.empty() ? 0.0 : base[slot * width + column]) + table[(r * kSlots + slot) * width + column];
  }
};

double Activated(NormActivation activation, double v) {
  if (activation == NormActivation::kSilu) return v / (1 + std::exp(-v));
  if (activation == NormActivation::kGeluTanh) {
    return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  }
  return v;
}

struct Expected {
  Floats x, outputs[2];
};

// (x − mean) · factor of a row.
std::vector<double> Normalised(const Form& f, const float* row) {
  const auto width = static_cast<double>(f.width);
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < f.width; ++c) sum += row[c];
  const double mean = f.kind == NormKind::kLayer ? sum / width : 0;
  for (int64_t c = 0; c < f.width; ++c) squares += (row[c] - mean) * (row[c] - mean);
  const double factor = f.kind == NormKind::kNone ? 1 : 1 / std::sqrt(squares / width + 1e-6);
  std::vector<double> out(f.width);
  for (int64_t c = 0; c < f.width; ++c) out[c] = (row[c] - mean) * factor;
  return out;
}

Expected Define(const Form& f, Floats x, const Floats& y, const Floats& weight, const Tables& tables) {
  Expected expected;
  for (int64_t i = 0; i < f.rows; ++i) {
    float* row = &x[i * f.width];
    const int64_t place = f.first_row + i;
    for (int64_t c = 0; f.residual && i < f.y_rows && c < f.width; ++c) {
      const double gate = f.gated ? tables.At(place, kGateSlot, c) : 1;
      row[c] = Rounded(static_cast<float>(row[c] + gate * y[i * f.width + c]), f.x);
    }
    const std::vector<double> normalised = Normalised(f, row);
    for (int64_t c = 0; c < f.width; ++c) {
      const double norm = Activated(f.activation, normalised[c] * (f.weight ? weight[c] : 1));
      for (int o = 0; o < f.outputs(); ++o) {
        const double h = f.modulated == 0 ? norm : norm * (1 + tables.At(place, o, c)) + tables.At(place, 2 - o, c);
        const bool written = i < (o == 0 ? f.first_rows : f.second_rows);
        expected.outputs[o].push_back(written ? static_cast<float>(h) : std::nanf(""));
      }
    }
  }
  expected.x = std::move(x);
  return expected;
}

class RowNormTest : public OnAStream, public testing::WithParamInterface<Form> {};

TEST_P(RowNormTest, IsItsDefinition) {
  const Form& f = GetParam();
  const int64_t count = f.rows * f.width;
  const Floats x = Values(count, 1, f.x), y = Values(count, 2, f.x), weight = Values(f.width, 3);
  const Floats nan(count, std::nanf(""));
  const Tables tables(f);
  const Matrix dx(x, f.rows, f.width, f.gap, f.x, stream_), dy(y, f.rows, f.width, f.gap, f.x, stream_);
  const Matrix first(nan, f.rows, f.width, f.gap, f.out, stream_), second(nan, f.rows, f.width, 0, f.out, stream_);
  const auto behind = [&](Floats values) {
    values.insert(values.begin(), f.skip, std::nanf(""));
    return values;
  };
  const DeviceArray<float> dweight(behind(weight), stream_), dtable(behind(tables.table), stream_);
  const DeviceArray<float> dbase(f.with_base ? tables.base : Floats(1), stream_);
  const DeviceArray<int32_t> drow(tables.row, stream_);
  const Modulation modulation{.table = dtable.data() + f.skip,
                              .base = f.with_base ? dbase.data() : nullptr,
                              .row = drow.data(),
                              .tokens = f.tokens,
                              .slots = kSlots};
  RowNorm norm{.rows = f.rows, .width = f.width, .x = dx.rows()};
  norm.kind = f.kind;
  norm.activation = f.activation;
  norm.first_row = f.first_row;
  norm.y_rows = f.y_rows;
  if (f.gated) norm.gate = modulation;
  norm.gate_slot = kGateSlot;
  if (f.residual) norm.y = dy.rows();
  if (f.weight) norm.weight = dweight.data() + f.skip;
  norm.outputs = f.outputs();
  norm.first = {.out = first.rows(), .rows = f.first_rows, .modulation = modulation, .scale_slot = 0, .shift_slot = 2};
  norm.second = {
      .out = second.rows(), .rows = f.second_rows, .modulation = modulation, .scale_slot = 1, .shift_slot = 1};
  if (f.modulated == 0) norm.first.modulation.table = nullptr;
  const Expected expected = Define(f, x, y, weight, tables);
  ASSERT_EQ(LaunchRowNorm(norm, stream_), cudaSuccess);
  ExpectNear(first.Read(), expected.outputs[0], f.out, "out");
  if (f.modulated == 2) ExpectNear(second.Read(), expected.outputs[1], f.out, "second out");
  ExpectNear(dx.Read(), expected.x, f.x, "x");
  EXPECT_EQ(simt::Failure(), "");
}

constexpr Type kF32 = Type::kF32;
const Form kForms[] = {
    {.name = "OneVector", .rows = 3, .width = 8},
    {.name = "LessThanAWarp", .rows = 5, .width = 200, .tokens = 2},
    {.name = "AudioWidth", .rows = 2, .width = 2048, .residual = true},
    {.name = "VideoWidth", .rows = 2, .width = 4096, .residual = true, .modulated = 2, .tokens = 2},
    {.name = "PromptWidth", .rows = 2, .width = 3840, .weight = true, .modulated = 0},
    {.name = "WidestRow", .rows = 1, .width = 16384, .residual = true},
    {.name = "BetweenTheSizes", .rows = 2, .width = 6184, .residual = true, .with_base = false},
    {.name = "RowsApart", .rows = 4, .width = 64, .gap = 16, .residual = true, .modulated = 2, .tokens = 4},
    {.name = "Float", .rows = 3, .width = 512, .x = kF32, .out = kF32, .residual = true, .modulated = 2},
    {.name = "FloatToBf16", .rows = 3, .width = 512, .x = kF32, .residual = true},
    {.name = "Bf16ToFloat", .rows = 3, .width = 512, .out = kF32},
    {.name = "LayerNorm", .rows = 3, .width = 1024, .kind = NormKind::kLayer, .tokens = 3},
    {.name = "ModulationAlone", .rows = 3, .width = 256, .kind = NormKind::kNone},
    {.name = "Silu", .rows = 3, .width = 256, .activation = NormActivation::kSilu, .modulated = 0},
    {.name = "Gelu", .rows = 3, .width = 256, .activation = NormActivation::kGeluTanh, .modulated = 0},
    {.name = "NoGate", .rows = 3, .width = 256, .residual = true, .gated = false},
    {.name = "OddNoGate", .rows = 3, .width = 37, .residual = true, .gated = false},
    {.name = "SomeRows",
     .rows = 5,
     .width = 2048,
     .residual = true,
     .modulated = 2,
     .tokens = 3,
     .first_row = 2,
     .y_rows = 4,
     .first_rows = 3,
     .second_rows = 2},
    {.name = "OddSomeRows",
     .rows = 5,
     .width = 37,
     .residual = true,
     .modulated = 2,
     .tokens = 3,
     .first_row = 4,
     .y_rows = 2,
     .first_rows = 3,
     .second_rows = 4},
    {.name = "OddWidth", .rows = 3, .width = 37, .residual = true, .weight = true, .modulated = 2},
    {.name = "OddGap", .rows = 3, .width = 64, .gap = 3, .x = kF32, .out = kF32, .residual = true},
    {.name = "MisalignedTable", .rows = 2, .width = 64, .residual = true, .skip = 1},
    {.name = "MisalignedWeight", .rows = 2, .width = 64, .weight = true, .modulated = 0, .skip = 1},
    {.name = "OddLayerNorm", .rows = 2, .width = 301, .kind = NormKind::kLayer},
};
INSTANTIATE_TEST_SUITE_P(All, RowNormTest, testing::ValuesIn(kForms), [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, RowNormIsTheResidualAloneTooAndRefusesWhatCannotBe) {
  const DeviceArray<float> x(Floats(64, 1.0f), stream_), y(Floats(64, 2.0f), stream_), gate(Floats(32, 3.0f), stream_);
  RowNorm norm{.rows = 2, .width = 32, .x = {.data = x.data(), .stride = 32}};
  norm.y = {.data = y.data(), .stride = 32};
  norm.gate = {.table = gate.data(), .slots = 1};
  norm.outputs = 0;
  ASSERT_EQ(LaunchRowNorm(norm, stream_), cudaSuccess);
  EXPECT_EQ(x.Read(stream_), Floats(64, 7.0f));
  RowNorm three = norm, wide = norm, empty = norm;
  three.outputs = 3;
  wide.width = 16385;
  empty.rows = 0;
  for (const RowNorm& wrong : {three, wide, empty}) EXPECT_EQ(LaunchRowNorm(wrong, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels

// Residual updates followed by norms, on every backend, against the formulas in double precision and against their
// definition op by op on the same backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/testing/backends.h"

namespace kinora {
namespace {

using Values = std::vector<float>;

// Values in [-2, 2] that f32 and bf16 represent exactly.
Values Waves(int64_t count, int salt) {
  Values values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(bf16(2.0f * std::sin(0.31f * static_cast<float>(i % 9973 * 7 + salt))));
  }
  return values;
}

HostTensor Host(DType dtype, const Shape& shape, const Values& values) {
  HostTensor t(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) {
      t.f32()[i] = values[i];
    } else {
      t.tensor().data<bf16>()[i] = bf16(values[i]);
    }
  }
  return t;
}

Values Wide(const HostTensor& t) {
  Values values;
  for (int64_t i = 0; i < t.tensor().elements(); ++i) {
    const bool wide = t.tensor().dtype() == DType::kF32;
    values.push_back(wide ? t.tensor().data<float>()[i] : static_cast<float>(t.tensor().data<bf16>()[i]));
  }
  return values;
}

constexpr int64_t kRows = 6, kTokens = 2, kSlots = 3;
enum Slot { kGate, kScale, kShift };

// A residual of kRows rows, a product for its first 4 rows, and two outputs: for the first 4 rows and for all rows.
struct Case {
  Case(Device& device, DType dtype, int64_t width)
      : values(Waves(kRows * width, 1)),
        table(Waves(2 * kSlots * width, 3)),
        update{.x = device.Upload(Host(dtype, {kRows, width}, values).tensor())} {
    HostTensor row(DType::kI32, {kTokens});
    for (int i = 0; i < kTokens; ++i) row.tensor().data<int32_t>()[i] = 1 - i;
    modulation = {device.Upload(table, {2, kSlots, width}), Tensor(), device.Upload(row.tensor())};
    update.gate = {modulation, kGate};
    update.normed = {
        {{device.Output(dtype, {4, width}), {modulation, kScale, kShift}}, {device.Output(dtype, {kRows, width})}}};
  }
  Values values, table;
  Modulation modulation;
  ResidualUpdate update;
};

class ResidualOps : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, ResidualOps, testing::ValuesIn(Backends()), BackendName);

TEST_P(ResidualOps, ASumAndItsNormsAreTheirFormulas) {
  for (const int64_t width : {40, 37, 4096}) {
    for (const bool gated : {true, false}) {
      Device device(GetParam());
      Case c(device, DType::kF32, width);
      if (!gated) c.update.gate = {};
      const Values y = Waves(4 * width, 2);
      device.ops().AddThenNorms(device.Upload(y, {4, width}), c.update);
      const auto slot = [&](int64_t row, int s, int64_t column) {
        return static_cast<double>(c.table[((1 - row % kTokens) * kSlots + s) * width + column]);
      };
      Values sums = c.values, first, second;
      for (int64_t r = 0; r < kRows; ++r) {
        double squares = 0;
        for (int64_t i = 0; i < width; ++i) {
          float& sum = sums[r * width + i];
          if (r < 4) sum = static_cast<float>(sum + (gated ? slot(r, kGate, i) : 1) * y[r * width + i]);
          squares += static_cast<double>(sum) * sum / static_cast<double>(width);
        }
        for (int64_t i = 0; i < width; ++i) {
          const double norm = sums[r * width + i] / std::sqrt(squares + 1e-6);
          second.push_back(static_cast<float>(norm));
          if (r < 4) first.push_back(static_cast<float>(norm * (1 + slot(r, kScale, i)) + slot(r, kShift, i)));
        }
      }
      EXPECT_TRUE(Near(device.Floats(c.update.x), Host(DType::kF32, {kRows, width}, sums).tensor(), 2e-6)) << width;
      EXPECT_TRUE(Near(device.Floats(c.update.normed[0].out), Host(DType::kF32, {4, width}, first).tensor(), 5e-6))
          << width;
      EXPECT_TRUE(Near(device.Floats(c.update.normed[1].out), Host(DType::kF32, {kRows, width}, second).tensor(), 5e-6))
          << width;
    }
  }
}

// Tests widths of whole vectors and one other; weights in float32 and bfloat16; and a second output of a different
// type.
TEST_P(ResidualOps, AProductInAResidualIsItsDefinition) {
  constexpr int64_t kIn = 48;
  for (const int64_t width : {64, 30}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool other_type : {false, true}) {
        Device device(GetParam());
        const Values bias = Waves(width, 5);
        const HostTensor matrix = Host(DType::kF32, {width, kIn}, Waves(width * kIn, 4)),
                         bias_on_host = Host(DType::kF32, {width}, bias);
        const Weight w = *device.ops().PrepareWeight(matrix.tensor(), &bias_on_host.tensor(), dtype);
        const Tensor x = device.Upload(Host(dtype, {4, kIn}, Waves(4 * kIn, 6)).tensor());
        Case fused(device, dtype, width), plain(device, dtype, width);
        for (Case* c : {&fused, &plain}) {
          if (other_type) c->update.normed[1].out = device.Output(DType::kF32, {kRows, width});
        }
        device.ops().MatmulThenNorms(x, w, fused.update);
        device.ops().Ops::MatmulThenNorms(x, w, plain.update);
        const double tolerance = dtype == DType::kF32 ? 2e-6 : 1e-2;
        const auto expect = [&](const Tensor& got, const Tensor& expected) {
          const HostTensor values = Host(DType::kF32, got.shape(), Wide(device.Download(expected)));
          EXPECT_TRUE(Near(Wide(device.Download(got)), values.tensor(), tolerance)) << width << " " << DTypeName(dtype);
        };
        expect(fused.update.x, plain.update.x);
        expect(fused.update.normed[0].out, plain.update.normed[0].out);
        expect(fused.update.normed[1].out, plain.update.normed[1].out);
      }
    }
  }
}

}  // namespace
}  // namespace kinora

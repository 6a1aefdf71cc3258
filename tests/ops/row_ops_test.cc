// Norms, modulation and elementwise ops on every backend, against their definitions in double precision: narrow, wide,
// non-contiguous and unaligned rows.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tests/ops/row_values.h"
#include "tests/testing/backends.h"

namespace kinora {
namespace {

double Silu(double v) { return v / (1 + std::exp(-v)); }
double Gelu(double v) { return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); }

class RowOps : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, RowOps, testing::ValuesIn(Backends()), BackendName);

// 4096 and 2048 are the transformers' widths, 128 a VAE's; 37 is arbitrary.
constexpr int64_t kWidths[] = {37, 128, 2048, 4096, kMaxRowWidth};

TEST_P(RowOps, NormsAreTheirFormulas) {
  Device device(GetParam());
  for (const int64_t width : kWidths) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const HostTensor x = Waves(dtype, {3, width}, 1), weight = Waves(DType::kF32, {width}, 2);
      const Tensor on_device = device.Upload(x.tensor()), w = device.Upload(weight.tensor());
      double mean[3], variance[3], square[3];
      for (int64_t row = 0; row < 3; ++row) {
        mean[row] = variance[row] = square[row] = 0;
        for (int64_t i = 0; i < width; ++i) mean[row] += At(x, row * width + i) / static_cast<double>(width);
        for (int64_t i = 0; i < width; ++i) {
          const double v = At(x, row * width + i);
          variance[row] += (v - mean[row]) * (v - mean[row]) / static_cast<double>(width);
          square[row] += v * v / static_cast<double>(width);
        }
      }
      const auto rms = [&](int64_t r, int64_t c) { return At(x, r * width + c) / std::sqrt(square[r] + 1e-6); };
      const auto expect = [&](const Tensor& out, const std::function<double(int64_t, int64_t)>& f) {
        EXPECT_TRUE(Near(Floats(device.Download(out)).tensor(), Expected({3, width}, f).tensor(), Tolerance(dtype)))
            << width << " " << DTypeName(dtype);
      };
      const Tensor out = device.Output(dtype, {3, width});
      device.ops().RmsNorm(on_device, &w, 1e-6f, Activation::kNone, out);
      expect(out, [&](int64_t r, int64_t c) { return rms(r, c) * At(weight, c); });
      device.ops().RmsNorm(on_device, nullptr, 1e-6f, Activation::kSilu, out);
      expect(out, [&](int64_t r, int64_t c) { return Silu(rms(r, c)); });
      device.ops().LayerNorm(on_device, 1e-6f, on_device);  // in place
      expect(on_device,
             [&](int64_t r, int64_t c) { return (At(x, r * width + c) - mean[r]) / std::sqrt(variance[r] + 1e-6); });
    }
  }
}

TEST_P(RowOps, ModulationTakesTheRowOfATokenInViewsOfWiderRows) {
  Device device(GetParam());
  constexpr int64_t kRows = 6, kTokens = 3, kSlots = 3;
  for (const int64_t width : {24, 31}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const int64_t whole = 2 * width;
      const HostTensor x = Waves(dtype, {kRows, whole}, 1), y = Waves(dtype, {kRows, whole}, 2);
      const HostTensor table = Waves(DType::kF32, {2, kSlots, width}, 3), base = Waves(DType::kF32, {kSlots, width}, 4);
      HostTensor row(DType::kI32, {kTokens});
      for (int i = 0; i < kTokens; ++i) row.tensor().data<int32_t>()[i] = i % 2;
      const Modulation m{device.Upload(table.tensor()), device.Upload(base.tensor()), device.Upload(row.tensor())};
      const auto slot = [&](int64_t r, int s, int64_t c) {
        return At(base, s * width + c) + At(table, (r % kTokens % 2 * kSlots + s) * width + c);
      };
      const Tensor out = device.Output(DType::kF32, {kRows, width}), sum = device.Upload(x.tensor());
      device.ops().Modulate(device.Upload(x.tensor()).Columns(width, whole), {m, 2, 0}, out);
      device.ops().GatedAdd(device.Upload(y.tensor()).Columns(0, width), {m, 1}, sum.Columns(width, whole));
      const HostTensor modulated = Expected({kRows, width}, [&](int64_t r, int64_t c) {
        return At(x, r * whole + width + c) * (1 + slot(r, 2, c)) + slot(r, 0, c);
      });
      const HostTensor added = Expected({kRows, whole}, [&](int64_t r, int64_t c) {
        const double old = At(x, r * whole + c);
        return c < width ? old : old + slot(r, 1, c - width) * At(y, r * whole + c - width);
      });
      EXPECT_TRUE(Near(device.Download(out).tensor(), modulated.tensor(), 2e-6)) << width;
      EXPECT_TRUE(Near(Floats(device.Download(sum)).tensor(), added.tensor(), Tolerance(dtype))) << width;
    }
  }
}

TEST_P(RowOps, ElementwiseOpsAreTheirFormulas) {
  Device device(GetParam());
  for (const Shape& shape : {Shape{5, 37}, Shape{3, 64}, Shape{300, 96}, Shape{2, 3, 2, 16}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const int64_t width = shape[-1], rows = shape.elements() / width;
      const HostTensor x = Waves(dtype, shape, 1), y = Waves(dtype, shape, 2);
      const HostTensor scale = Waves(DType::kF32, {width}, 3), shift = Waves(DType::kF32, {width}, 4);
      const Tensor a = device.Upload(x.tensor()), b = device.Upload(y.tensor()), out = device.Output(dtype, shape);
      const auto expect = [&](const char* op, const Tensor& result, const std::function<double(int64_t, int64_t)>& f) {
        EXPECT_TRUE(
            Near(Floats(device.Download(result)).tensor(), Expected({rows, width}, f).tensor(), Tolerance(dtype)))
            << op << " " << shape.ToString();
      };
      const auto at = [&](const HostTensor& t, int64_t r, int64_t c) { return At(t, r * width + c); };
      device.ops().Activate(a, Activation::kSilu, out);
      expect("silu", out, [&](int64_t r, int64_t c) { return Silu(at(x, r, c)); });
      device.ops().Activate(a, Activation::kGeluTanh, out);
      expect("gelu", out, [&](int64_t r, int64_t c) { return Gelu(at(x, r, c)); });
      device.ops().Activate(a, Activation::kNone, out);
      expect("copy", out, [&](int64_t r, int64_t c) { return at(x, r, c); });
      device.ops().ActivateThenMultiply(a, Activation::kSilu, b, out);
      expect("silu · up", out, [&](int64_t r, int64_t c) { return Silu(at(x, r, c)) * at(y, r, c); });
      device.ops().ActivateThenMultiply(a, Activation::kGeluTanh, b, out);
      expect("gelu · up", out, [&](int64_t r, int64_t c) { return Gelu(at(x, r, c)) * at(y, r, c); });
      device.ops().Scale(a, -0.375f, out);
      expect("scale", out, [&](int64_t r, int64_t c) { return at(x, r, c) * -0.375; });
      device.ops().Affine(a, device.Upload(scale.tensor()), device.Upload(shift.tensor()), out);
      expect("affine", out, [&](int64_t r, int64_t c) { return at(x, r, c) * At(scale, c) + At(shift, c); });
      device.ops().Fill(-2.5f, out);
      expect("fill", out, [](int64_t, int64_t) { return -2.5; });
      device.ops().Add(b, a);
      expect("add", a, [&](int64_t r, int64_t c) { return at(x, r, c) + at(y, r, c); });
    }
  }
}

TEST_P(RowOps, AGateScalesItsHead) {
  Device device(GetParam());
  struct Heads {
    int64_t count, width;
  };
  for (const Heads& each : {Heads{32, 64}, {4, 24}, {3, 5}}) {
    const int64_t heads = each.count, d = each.width;
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const HostTensor x = Waves(dtype, {7, heads * d + 8}, 1), logits = Waves(DType::kF32, {7, heads}, 2);
      const Tensor whole = device.Upload(x.tensor());
      device.ops().GateHeads(device.Upload(logits.tensor()), whole.Columns(8, heads * d + 8));
      const HostTensor expected = Expected({7, heads * d + 8}, [&](int64_t r, int64_t c) {
        const double old = At(x, r * (heads * d + 8) + c);
        return c < 8 ? old : old * 2 / (1 + std::exp(-At(logits, r * heads + (c - 8) / d)));
      });
      EXPECT_TRUE(Near(Floats(device.Download(whole)).tensor(), expected.tensor(), Tolerance(dtype)))
          << heads << " heads of " << d;
    }
  }
}

// Compares with the definition on the same backend, bit for bit.
TEST_P(RowOps, GatesTakeReplacedRows) {
  for (const auto& [width, first, rows] : {std::tuple<int64_t, int64_t, int64_t>{48, 2, 3}, {24, 0, 2}, {15, 6, 1}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      Device device(GetParam());
      const HostTensor x = Waves(dtype, {7, width}, 1), others = Waves(dtype, {rows, 3 * width}, 2);
      const Tensor logits = device.Upload(Waves(DType::kF32, {7, 3}, 3).tensor());
      const Tensor values = device.Upload(others.tensor()).Columns(2 * width, 3 * width);
      const Tensor fused = device.Upload(x.tensor()), plain = device.Upload(x.tensor());
      device.ops().ReplaceRowsThenGateHeads(values, first, logits, fused);
      device.ops().Ops::ReplaceRowsThenGateHeads(values, first, logits, plain);
      EXPECT_EQ(device.Floats(fused), device.Floats(plain)) << rows << " rows of " << width << " from " << first;
    }
  }
}

// Compares with the definition on the same backend, bit for bit. Two sequences of three rows from two or three ranks.
TEST_P(RowOps, GatesTakeWhatRanksSentAndReplacedRows) {
  struct Form {
    int64_t ranks, width, first_block, first_value, values;  // of each rank's columns
    bool gated;
  };
  for (const Form& f : {Form{2, 24, 0, 0, 0, true}, Form{2, 24, 0, 3, 3, true}, Form{2, 24, 3, 0, 3, true},
                        Form{3, 15, 1, 2, 4, true}, Form{3, 16, 0, 6, 3, false}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      Device device(GetParam());
      const int64_t width = f.ranks * f.width;
      const HostTensor x = Waves(dtype, {9, width}, 1), blocks = Waves(dtype, {2, f.ranks, 3, f.width}, 2);
      const HostTensor values = Waves(dtype, {std::max<int64_t>(1, f.values), width}, 4);
      const Tensor logits = device.Upload(Waves(DType::kF32, {9, f.ranks}, 3).tensor());
      HeadBlocks from{.blocks = device.Upload(blocks.tensor()), .first_block = f.first_block};
      if (f.values > 0) from.values = device.Upload(values.tensor());
      from.first_value = f.first_value;
      const Tensor fused = device.Upload(x.tensor()), plain = device.Upload(x.tensor());
      device.ops().JoinBlocksThenGateHeads(from, f.gated ? &logits : nullptr, fused);
      device.ops().Ops::JoinBlocksThenGateHeads(from, f.gated ? &logits : nullptr, plain);
      EXPECT_EQ(device.Floats(fused), device.Floats(plain)) << f.ranks << " ranks, values from " << f.first_value;
      if (f.gated) continue;
      // Row 1 of the second sequence, the first column of the second rank.
      EXPECT_EQ(device.Floats(fused)[4 * width + f.width], At(blocks, ((f.ranks + 1) * 3 + 1) * f.width));
    }
  }
}

TEST_P(RowOps, NoRowsAreNoWork) {
  Device device(GetParam());
  const Tensor x = device.Output(DType::kBF16, {3, 16}).Rows(1, 1);
  device.ops().RmsNorm(x, nullptr, 1e-6f, Activation::kNone, x);
  device.ops().Scale(x, 2.0f, x);
  device.ops().Fill(2.0f, x);
  EXPECT_TRUE(device.ops().stream().Synchronize().ok());
}

}  // namespace
}  // namespace kinora

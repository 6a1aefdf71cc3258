// Rotations, sums of rows and lookups on every backend, against their definitions in double precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/row_values.h"
#include "tests/testing/backends.h"

namespace kinora {
namespace {

class RotationOps : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, RotationOps, testing::ValuesIn(Backends()), BackendName);

struct Form {
  const char* name;
  int64_t rows, heads, head, group;  // group 0: no norm
  int64_t tokens;                    // rows of the tables; 0: no rotation
  bool shared = false;               // tables of half a head
  bool sums = false;                 // sums are given, for four times the columns
};
constexpr Form kForms[] = {
    {"all heads", 6, 4, 64, 256, 3},
    {"each head", 5, 3, 128, 128, 5, true},
    {"the video's width", 2, 32, 128, 4096, 2},
    {"the widest rows", 2, 64, 256, 256, 1, true},
    {"a group of ranks", 4, 4, 64, 256, 4, false, true},
    {"norm alone", 4, 3, 64, 192, 0},
    {"rotation alone", 4, 3, 64, 0, 2},
    {"odd heads", 6, 5, 6, 30, 3},
    {"each odd head", 4, 5, 10, 10, 4, true},
    {"odd heads of a group of ranks", 4, 5, 6, 30, 2, false, true},
};

struct Operands {
  HostTensor x, weight, cos, sin, sums;
  NormRopeParams On(Device& device, const Form& f) const {
    NormRopeParams p{.group = f.group, .head_width = f.head};
    if (f.group > 0) p.weight = device.Upload(weight.tensor());
    if (f.sums) p.full_group = 4 * f.group;
    if (f.tokens > 0) p.rope = {device.Upload(cos.tensor()), device.Upload(sin.tensor())};
    return p;
  }
};

Operands Draw(const Form& f, DType dtype, int salt) {
  const int64_t width = f.heads * f.head, table = f.shared ? f.head / 2 : width / 2;
  const int64_t group = f.group > 0 ? f.group : width, tokens = std::max<int64_t>(1, f.tokens);
  Operands o{Waves(dtype, {f.rows, width}, salt), Waves(DType::kF32, {group}, salt + 1),
             Waves(DType::kF32, {tokens, table}, salt + 2), Waves(DType::kF32, {tokens, table}, salt + 3),
             Waves(DType::kF32, {f.rows, width / group}, salt + 4)};
  for (int64_t i = 0; i < o.sums.tensor().elements(); ++i) o.sums.f32()[i] = 90 * (o.sums.f32()[i] + 3);
  return o;
}

HostTensor Define(const Form& f, const Operands& o) {
  const int64_t width = f.heads * f.head, half = f.head / 2;
  const auto normed = [&](int64_t r, int64_t c) {
    const double v = At(o.x, r * width + c);
    if (f.group == 0) return v;
    const int64_t g = c / f.group;
    double sum = 0;
    for (int64_t i = g * f.group; i < (g + 1) * f.group; ++i) sum += At(o.x, r * width + i) * At(o.x, r * width + i);
    if (f.sums) sum = At(o.sums, r * (width / f.group) + g) / 4;
    return v / std::sqrt(sum / static_cast<double>(f.group) + 1e-6) * At(o.weight, c % f.group);
  };
  return Expected({f.rows, width}, [&](int64_t r, int64_t c) {
    if (f.tokens == 0) return normed(r, c);
    const int64_t head = c / f.head, j = c % half;
    const int64_t at = r % f.tokens * o.cos.tensor().width() + (f.shared ? j : head * half + j);
    const double low = normed(r, head * f.head + j), high = normed(r, head * f.head + half + j);
    return c % f.head < half ? low * At(o.cos, at) - high * At(o.sin, at) : high * At(o.cos, at) + low * At(o.sin, at);
  });
}

TEST_P(RotationOps, NormAndRotationAreTheirFormulasInEveryForm) {
  Device device(GetParam());
  for (const Form& f : kForms) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const Operands o = Draw(f, dtype, 1);
      const Tensor x = device.Upload(o.x.tensor()), sums = device.Upload(o.sums.tensor());
      device.ops().NormRope(x, o.On(device, f), f.sums ? &sums : nullptr);
      EXPECT_TRUE(Near(Floats(device.Download(x)).tensor(), Define(f, o).tensor(), Tolerance(dtype)))
          << f.name << " " << DTypeName(dtype);
    }
  }
}

TEST_P(RotationOps, QueriesAndKeysAreNormedAndRotatedAsEachAlone) {
  Device device(GetParam());
  for (const Form& q_form : kForms) {
    for (const Form& k_form : {kForms[0], kForms[1], kForms[7]}) {
      if (q_form.sums) continue;
      const Operands q = Draw(q_form, DType::kBF16, 1), k = Draw(k_form, DType::kBF16, 2);
      const Tensor q_device = device.Upload(q.x.tensor()), k_device = device.Upload(k.x.tensor());
      device.ops().QkNormRope(q_device, k_device, q.On(device, q_form), k.On(device, k_form));
      EXPECT_TRUE(Near(Floats(device.Download(q_device)).tensor(), Define(q_form, q).tensor(), 4e-3)) << q_form.name;
      EXPECT_TRUE(Near(Floats(device.Download(k_device)).tensor(), Define(k_form, k).tensor(), 4e-3)) << k_form.name;
    }
  }
}

// Compares with the definition on the same backend, bit for bit: q and k of one form, and values, of two sequences for
// two ranks.
TEST_P(RotationOps, BlocksForRanksHaveTheBitsOfNormAndRotationInPlace) {
  Device device(GetParam());
  for (const Form& f : kForms) {
    if (f.heads % 2 != 0 || f.rows % 2 != 0) continue;
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const Operands q = Draw(f, dtype, 1), k = Draw(f, dtype, 2);
      const HostTensor v = Waves(dtype, {f.rows, f.heads * f.head}, 3);
      const Shape shape{2, 2, f.rows / 2, 3 * f.heads * f.head / 2};
      const Tensor fused = device.Output(dtype, shape), plain = device.Output(dtype, shape);
      for (const Tensor& blocks : {fused, plain}) {
        QkvParts parts{.q = device.Upload(q.x.tensor()),
                       .k = device.Upload(k.x.tensor()),
                       .v = device.Upload(v.tensor()),
                       .q_params = q.On(device, f),
                       .k_params = k.On(device, f)};
        if (f.sums) {
          parts.q_sums = device.Upload(q.sums.tensor());
          parts.k_sums = device.Upload(k.sums.tensor());
        }
        if (blocks.raw() == fused.raw()) {
          device.ops().QkNormRopeToBlocks(parts, blocks);
        } else {
          device.ops().Ops::QkNormRopeToBlocks(parts, blocks);
        }
      }
      EXPECT_EQ(device.Floats(fused), device.Floats(plain)) << f.name << " " << DTypeName(dtype);
      // The values of the second sequence's first row for the second rank are the last third of its block's row.
      const int64_t half = f.heads * f.head / 2, row = f.rows / 2;
      EXPECT_EQ(device.Floats(fused)[3 * row * 3 * half + 2 * half], At(v, row * 2 * half + half)) << f.name;
    }
  }
}

TEST_P(RotationOps, SumsOfSquaresAreThoseOfRowsOfViews) {
  Device device(GetParam());
  for (const int64_t width : {37, 256, 4096}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const HostTensor x = Waves(dtype, {5, 2 * width}, 1);
      const Tensor out = device.Output(DType::kF32, {5, 1});
      device.ops().SumOfSquares(device.Upload(x.tensor()).Columns(width, 2 * width), out);
      const HostTensor expected = Expected({5, 1}, [&](int64_t r, int64_t) {
        double sum = 0;
        for (int64_t i = 0; i < width; ++i) sum += At(x, (2 * r + 1) * width + i) * At(x, (2 * r + 1) * width + i);
        return sum;
      });
      EXPECT_TRUE(Near(device.Download(out).tensor(), expected.tensor(), 1e-6)) << width;
    }
  }
}

TEST_P(RotationOps, GatheredRowsAreTheTablesTimesTheFactor) {
  Device device(GetParam());
  for (const int64_t width : {33, 3840}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const HostTensor table = Waves(dtype, {5, width}, 1);
      HostTensor ids(DType::kI32, {4});
      for (int i = 0; i < 4; ++i) ids.tensor().data<int32_t>()[i] = 3 * i % 5;
      const Tensor out = device.Output(dtype, {4, width});
      device.ops().GatherRows(device.Upload(table.tensor()), device.Upload(ids.tensor()), 61.96f, out);
      const HostTensor expected =
          Expected({4, width}, [&](int64_t r, int64_t c) { return 61.96f * At(table, 3 * r % 5 * width + c); });
      EXPECT_TRUE(Near(Floats(device.Download(out)).tensor(), expected.tensor(), Tolerance(dtype))) << width;
    }
  }
}

// The denoising loop's step counter: replaying a graph gathers rows by its current value.
TEST_P(RotationOps, CountersGoOnByOneInEveryReplay) {
  Device device(GetParam());
  HostTensor start(DType::kI32, {3});
  for (int i = 0; i < 3; ++i) start.tensor().data<int32_t>()[i] = i - 1;
  const Tensor counters = device.Upload(start.tensor()), table = device.Upload({0, 10, 20, 30, 40}, {5, 1}),
               out = device.Output(DType::kF32, {3, 1});
  const auto graph = device.ops().stream().Capture([&] {
    device.ops().Increment(counters);
    device.ops().GatherRows(table, counters, 1.0f, out);
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const float first : {0.0f, 10.0f, 20.0f}) {
    (*graph)->Replay();
    EXPECT_EQ(device.Floats(out), (std::vector<float>{first, first + 10, first + 20}));
  }
}

// Steps between two float32 values.
int64_t Ulps(float a, float b) {
  const auto order = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return int64_t{bits < 0 ? std::numeric_limits<int32_t>::min() - bits : bits};
  };
  return std::abs(order(a) - order(b));
}

TEST_P(RotationOps, TablesAreWithinAnUlpOfTheirAnglesInDoublePrecision) {
  Device device(GetParam());
  constexpr int64_t kAxes = 3, kTokens = 7, kCount = 50, kPad = 2, kAll = kPad + kAxes * kCount;
  std::vector<float> fractions, frequencies;
  for (int i = 0; i < kAxes * kTokens; ++i) fractions.push_back(-1.0f + 0.21f * static_cast<float>(i));
  for (int k = 0; k < kCount; ++k) frequencies.push_back(std::pow(1e4f, static_cast<float>(k) / 49.0f) * 1.5707964f);
  for (const auto& [first, columns] : {std::pair<int64_t, int64_t>{0, kAll}, {kAll / 2, kAll / 2}}) {
    const Tensor cos = device.Output(DType::kF32, {kTokens, columns}), sin = device.Output(DType::kF32, cos.shape());
    device.ops().RopeTable({.fractions = device.Upload(fractions, {kAxes, kTokens}),
                            .frequencies = device.Upload(frequencies, {kCount}),
                            .pad = kPad,
                            .first_column = first},
                           cos, sin);
    const std::vector<float> cosines = device.Floats(cos), sines = device.Floats(sin);
    for (int64_t i = 0; i < kTokens * columns; ++i) {
      const int64_t turned = first + i % columns - kPad;
      const float angle =
          turned < 0 ? 0 : fractions[turned % kAxes * kTokens + i / columns] * frequencies[turned / kAxes];
      ASSERT_LE(Ulps(cosines[i], static_cast<float>(std::cos(static_cast<double>(angle)))), 1) << i;
      ASSERT_LE(Ulps(sines[i], static_cast<float>(std::sin(static_cast<double>(angle)))), 1) << i;
    }
  }
}

TEST_P(RotationOps, TimestepsBecomeCosinesThenSines) {
  Device device(GetParam());
  const std::vector<float> t = {0, 0.25f, 437.5f, 1000};
  const Tensor out = device.Output(DType::kF32, {4, 256});
  device.ops().TimestepEmbedding(device.Upload(t, {4}), out);
  const HostTensor expected = Expected({4, 256}, [&](int64_t r, int64_t c) {
    const float exponent = -9.210340371976184f * static_cast<float>(c % 128) / 128.0f;  // rounded like the reference
    const double angle = t[r] * static_cast<float>(std::exp(static_cast<double>(exponent)));
    return c < 128 ? std::cos(angle) : std::sin(angle);
  });
  EXPECT_TRUE(Near(device.Download(out).tensor(), expected.tensor(), 2e-5));
}

}  // namespace
}  // namespace kinora

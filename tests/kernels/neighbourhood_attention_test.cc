// Neighbourhood attention in all its forms, against the definition in double precision.
#include "kernels/neighbourhood_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

constexpr Type kF32 = Type::kF32, kBf16 = Type::kBf16;

struct Form {
  std::string name;
  Extents grid, window;
  int heads = 2, width = 64;
  Type q = kBf16, k = kBf16, v = kBf16, out = kBf16;
  Extents first{}, queries{};    // queries.time = 0: the whole grid
  int64_t gap = 0, out_gap = 0;  // after rows of q, k and v, and of out
  float scale = 0.3f;
  Extents box() const { return queries.time > 0 ? queries : grid; }
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

int64_t Count(const Extents& e) { return int64_t{e.time} * e.height * e.width; }
int64_t RowOf(const Extents& grid, int time, int height, int width) {
  return (int64_t{time} * grid.height + height) * grid.width + width;
}

// The values of a form on the host and on the device.
struct Data {
  Data(const Form& f, cudaStream_t stream)
      : columns(int64_t{f.heads} * f.width),
        q_values(Values(Count(f.box()) * columns, 1, f.q)),
        k_values(Values(Count(f.grid) * columns, 2, f.k)),
        v_values(Values(Count(f.grid) * columns, 3, f.v)),
        q(q_values, Count(f.box()), columns, f.gap, f.q, stream),
        k(k_values, Count(f.grid), columns, f.gap, f.k, stream),
        v(v_values, Count(f.grid), columns, f.gap, f.v, stream),
        out(Floats(Count(f.box()) * columns, std::nanf("")), Count(f.box()), columns, f.out_gap, f.out, stream) {}
  NeighbourhoodAttention Args(const Form& f) const {
    return {.q = q.rows(),
            .k = k.rows(),
            .v = v.rows(),
            .out = out.rows(),
            .grid = f.grid,
            .window = f.window,
            .first = f.first,
            .queries = f.box(),
            .heads = f.heads,
            .width = f.width,
            .scale = f.scale};
  }
  const int64_t columns;
  Floats q_values, k_values, v_values;
  Matrix q, k, v, out;
};

std::pair<int, int> KeysOf(int i, int extent, int window) {
  const int count = std::min(window, extent), begin = std::clamp(i - count / 2, 0, extent - count);
  return {begin, begin + count};
}

// Writes a query's head of the result to `out`.
void Define(const Form& f, const Data& data, const Extents& at, int head, float* out) {
  const Extents box = f.box();
  const auto times = KeysOf(at.time, f.grid.time, f.window.time);
  const auto heights = KeysOf(at.height, f.grid.height, f.window.height);
  const auto widths = KeysOf(at.width, f.grid.width, f.window.width);
  const int64_t row = RowOf(box, at.time - f.first.time, at.height - f.first.height, at.width - f.first.width);
  const float* const q = &data.q_values[row * data.columns + int64_t{head} * f.width];
  std::vector<double> sums(f.width, 0.0);
  double denominator = 0;
  for (int t = times.first; t < times.second; ++t) {
    for (int h = heights.first; h < heights.second; ++h) {
      for (int w = widths.first; w < widths.second; ++w) {
        const int64_t key = RowOf(f.grid, t, h, w) * data.columns + int64_t{head} * f.width;
        double dot = 0;
        for (int c = 0; c < f.width; ++c) dot += static_cast<double>(q[c]) * data.k_values[key + c];
        const double weight = std::exp(f.scale * dot);
        denominator += weight;
        for (int c = 0; c < f.width; ++c) sums[c] += weight * data.v_values[key + c];
      }
    }
  }
  for (int c = 0; c < f.width; ++c) out[c] = static_cast<float>(sums[c] / denominator);
}

Floats Expected(const Form& f, const Data& data) {
  const Extents box = f.box();
  Floats expected(Count(box) * data.columns);
  for (int t = 0; t < box.time; ++t) {
    for (int h = 0; h < box.height; ++h) {
      for (int w = 0; w < box.width; ++w) {
        const Extents at{t + f.first.time, h + f.first.height, w + f.first.width};
        float* const row = &expected[RowOf(box, t, h, w) * data.columns];
        for (int head = 0; head < f.heads; ++head) Define(f, data, at, head, row + int64_t{head} * f.width);
      }
    }
  }
  return expected;
}

class NeighbourhoodAttentionTest : public OnAStream, public testing::WithParamInterface<Form> {};

TEST_P(NeighbourhoodAttentionTest, IsItsDefinition) {
  const Form& f = GetParam();
  const Data data(f, stream_);
  ASSERT_EQ(LaunchNeighbourhoodAttention(data.Args(f), stream_), cudaSuccess);
  const Floats got = data.out.Read();
  ASSERT_EQ(simt::Failure(), "");
  ExpectNear(got, Expected(f, data), f.out, "out");
}

const Form kForms[] = {
    // By groups of threads.
    {.name = "Float", .grid = {4, 5, 6}, .window = {3, 3, 5}, .q = kF32, .k = kF32, .v = kF32, .out = kF32},
    {.name = "Width8", .grid = {3, 6, 5}, .window = {3, 5, 3}, .width = 8},
    {.name = "Width16Float",
     .grid = {1, 9, 7},
     .window = {3, 5, 5},
     .heads = 3,
     .width = 16,
     .q = kF32,
     .k = kF32,
     .v = kF32,
     .out = kF32},
    {.name = "Width40", .grid = {5, 3, 4}, .window = {3, 3, 3}, .width = 40},
    {.name = "Width128", .grid = {3, 4, 5}, .window = {3, 3, 3}, .heads = 1, .width = 128},
    {.name = "UnalignedRows", .grid = {3, 4, 5}, .window = {3, 3, 3}, .gap = 3},
    {.name = "UnalignedResult", .grid = {3, 4, 5}, .window = {3, 3, 3}, .out_gap = 1},
    {.name = "UnalignedFloat",
     .grid = {3, 4, 5},
     .window = {3, 3, 3},
     .width = 24,
     .q = kF32,
     .k = kF32,
     .v = kF32,
     .out = kF32,
     .gap = 1,
     .out_gap = 2},
    {.name = "Mixture", .grid = {3, 4, 5}, .window = {3, 3, 3}, .width = 16, .q = kF32, .v = kF32, .gap = 8},
    {.name = "Bf16ToFloat", .grid = {3, 4, 5}, .window = {3, 3, 3}, .out = kF32},
    {.name = "WholeGridFloat",
     .grid = {2, 3, 4},
     .window = {11, 11, 11},
     .width = 8,
     .q = kF32,
     .k = kF32,
     .v = kF32,
     .out = kF32},
    {.name = "BoxFloat",
     .grid = {5, 6, 7},
     .window = {3, 3, 5},
     .width = 8,
     .q = kF32,
     .k = kF32,
     .v = kF32,
     .out = kF32,
     .first = {1, 2, 3},
     .queries = {3, 3, 4}},
    // On tensor cores.
    {.name = "OneTile", .grid = {4, 4, 8}, .window = {3, 3, 3}, .heads = 1},
    {.name = "TwoHeads", .grid = {3, 4, 8}, .window = {3, 3, 5}},
    {.name = "RaggedTiles", .grid = {5, 6, 11}, .window = {3, 3, 5}, .heads = 1},
    {.name = "LargeWindows",
     .grid = {13, 13, 13},
     .window = {11, 11, 11},
     .heads = 1,
     .first = {4, 4, 0},
     .queries = {3, 3, 9}},
    {.name = "BordersInTime", .grid = {11, 4, 8}, .window = {7, 3, 3}, .heads = 1},
    {.name = "BordersInHeight", .grid = {1, 18, 8}, .window = {1, 9, 3}, .heads = 1},
    {.name = "BordersInWidth", .grid = {1, 4, 29}, .window = {1, 3, 13}, .heads = 1},
    {.name = "WholeGrid", .grid = {3, 5, 6}, .window = {11, 11, 11}, .heads = 1},
    {.name = "WindowsOfTheGrid", .grid = {3, 5, 7}, .window = {3, 5, 7}, .heads = 1},
    {.name = "WindowsOfOneKey", .grid = {3, 5, 9}, .window = {1, 1, 1}, .heads = 1},
    {.name = "WindowsOfOneRow", .grid = {2, 5, 9}, .window = {1, 1, 7}, .heads = 1},
    {.name = "OnePosition", .grid = {1, 1, 1}, .window = {3, 3, 3}, .heads = 1},
    {.name = "Box", .grid = {7, 9, 19}, .window = {3, 5, 5}, .heads = 1, .first = {3, 2, 7}, .queries = {2, 5, 9}},
    {.name = "BoxAtTheEnd",
     .grid = {7, 6, 10},
     .window = {3, 3, 5},
     .heads = 1,
     .first = {6, 5, 8},
     .queries = {1, 1, 2}},
    {.name = "RowsApart", .grid = {3, 4, 8}, .window = {3, 3, 3}, .gap = 24, .out_gap = 8},
    {.name = "SharpWeights", .grid = {4, 6, 8}, .window = {3, 5, 7}, .heads = 1, .scale = 3.0f},
    {.name = "EvenWeights", .grid = {4, 6, 8}, .window = {3, 5, 7}, .heads = 1, .scale = 1e-4f},
    {.name = "ManyTilesInTime", .grid = {37, 2, 9}, .window = {3, 1, 3}, .heads = 1},
};
INSTANTIATE_TEST_SUITE_P(All, NeighbourhoodAttentionTest, testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, NeighbourhoodAttentionHasTheSameBitsInEveryBox) {
  const Form forms[] = {
      {.name = "tiles", .grid = {5, 8, 16}, .window = {3, 5, 7}, .heads = 1, .out = kBf16},
      {.name = "groups", .grid = {5, 8, 16}, .window = {3, 5, 7}, .heads = 1, .width = 8, .q = kF32, .out = kF32}};
  for (const Form& whole : forms) {
    const Data all(whole, stream_);
    ASSERT_EQ(LaunchNeighbourhoodAttention(all.Args(whole), stream_), cudaSuccess);
    const Floats expected = all.out.Read();
    Form box = whole;
    box.first = {1, 3, 5};
    box.queries = {3, 4, 9};
    Floats queries, part;
    for (int64_t i = 0; i < Count(box.queries); ++i) {
      const auto at = static_cast<int>(i);
      const int64_t row = RowOf(whole.grid, at / 9 / 4 + 1, at / 9 % 4 + 3, at % 9 + 5);
      const auto begin = row * all.columns, end = begin + all.columns;
      queries.insert(queries.end(), all.q_values.begin() + begin, all.q_values.begin() + end);
      part.insert(part.end(), expected.begin() + begin, expected.begin() + end);
    }
    const Data data(box, stream_);
    const Matrix q(queries, Count(box.queries), data.columns, 0, box.q, stream_);
    NeighbourhoodAttention args = data.Args(box);
    args.q = q.rows();
    ASSERT_EQ(LaunchNeighbourhoodAttention(args, stream_), cudaSuccess);
    EXPECT_EQ(data.out.Read(), part) << whole.name;
  }
  EXPECT_EQ(simt::Failure(), "");
}

// Frames 8 to 12 of a clip, from keys of frames 4 to 14.
TEST_F(OnAStream, NeighbourhoodAttentionHasTheSameBitsInSlabsThatBeginAtFourFrames) {
  const Form whole{.name = "", .grid = {19, 6, 9}, .window = {5, 3, 5}, .heads = 1};
  const Data all(whole, stream_);
  ASSERT_EQ(LaunchNeighbourhoodAttention(all.Args(whole), stream_), cudaSuccess);
  const Floats expected = all.out.Read();
  const int64_t plane = 6 * 9 * all.columns;
  NeighbourhoodAttention slab = all.Args(whole);
  const auto from = [&](Rows& rows, int frame) { rows.data = static_cast<uint16_t*>(rows.data) + frame * plane; };
  const Matrix out(Floats(5 * plane, 0.0f), 5 * 6 * 9, all.columns, 0, kBf16, stream_);
  from(slab.q, 8), from(slab.k, 4), from(slab.v, 4);
  slab.out = out.rows();
  slab.grid.time = 11;
  slab.first.time = 4;
  slab.queries.time = 5;
  ASSERT_EQ(LaunchNeighbourhoodAttention(slab, stream_), cudaSuccess);
  EXPECT_EQ(out.Read(), Floats(expected.begin() + 8 * plane, expected.begin() + 13 * plane));
  EXPECT_EQ(simt::Failure(), "");
}

// A tile's keys are those of its queries' windows, and each is loaded once, as are its values and the queries.
TEST_F(OnAStream, NeighbourhoodAttentionOnTensorCoresLoadsTheUnionOfWindowsOnce) {
  constexpr int kPieces = 8;  // of 16 bytes, in a row of a head
  const Form form{
      .name = "", .grid = {18, 18, 32}, .window = {11, 11, 11}, .heads = 1, .first = {8, 8, 8}, .queries = {4, 4, 8}};
  const Data data(form, stream_);
  simt::ResetCounts();
  ASSERT_EQ(LaunchNeighbourhoodAttention(data.Args(form), stream_), cudaSuccess);
  ExpectNear(data.out.Read(), Expected(form, data), kBf16, "out");
  const uint64_t keys = 14 * 14 * 18, queries = 4 * 4 * 8;
  EXPECT_EQ(simt::Counted().shared_copies, (2 * keys + queries) * kPieces);
}

TEST_F(OnAStream, NeighbourhoodAttentionRejectsWhatItCannotDo) {
  const Form form{.name = "", .grid = {3, 4, 5}, .window = {3, 3, 3}, .first = {1, 1, 1}, .queries = {2, 3, 4}};
  const Data data(form, stream_);
  const NeighbourhoodAttention good = data.Args(form);
  ASSERT_EQ(LaunchNeighbourhoodAttention(good, stream_), cudaSuccess);
  const std::vector<std::pair<const char*, void (*)(NeighbourhoodAttention&)>> mistakes = {
      {"no columns", [](NeighbourhoodAttention& a) { a.width = 0; }},
      {"a width beside eight", [](NeighbourhoodAttention& a) { a.width = 12; }},
      {"wide heads", [](NeighbourhoodAttention& a) { a.width = 136; }},
      {"no heads", [](NeighbourhoodAttention& a) { a.heads = 0; }},
      {"many heads", [](NeighbourhoodAttention& a) { a.heads = 1 << 16; }},
      {"no scale", [](NeighbourhoodAttention& a) { a.scale = 0; }},
      {"a scale that is no number", [](NeighbourhoodAttention& a) { a.scale = std::nanf(""); }},
      {"an even window", [](NeighbourhoodAttention& a) { a.window.height = 4; }},
      {"no window", [](NeighbourhoodAttention& a) { a.window.time = -1; }},
      {"no queries", [](NeighbourhoodAttention& a) { a.queries.width = 0; }},
      {"a box before the grid", [](NeighbourhoodAttention& a) { a.first.time = -1; }},
      {"a box beyond the grid", [](NeighbourhoodAttention& a) { a.first.width = 2; }},
      {"a box far beyond the grid", [](NeighbourhoodAttention& a) { a.first.height = 0x7fffffff; }},
      {"a grid too large",
       [](NeighbourhoodAttention& a) {
         a.grid = {1 << 11, 1 << 10, 1 << 10};
       }},
  };
  for (const auto& [what, make] : mistakes) {
    NeighbourhoodAttention bad = good;
    make(bad);
    EXPECT_EQ(LaunchNeighbourhoodAttention(bad, stream_), cudaErrorInvalidValue) << what;
  }
  EXPECT_EQ(simt::Failure(), "");
}

}  // namespace
}  // namespace kinora::kernels

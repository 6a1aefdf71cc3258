// Neighbourhood attention on every backend against its definition in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "tests/testing/backends.h"
#include "tests/testing/op_values.h"

namespace kinora {
namespace {

struct Case {
  std::string name;
  SpaceTime grid, window, first{.time = 0, .height = 0, .width = 0}, queries;
  int heads = 2;
  int64_t head_width = 16, gap = 0;  // gap: columns before q, k, v and out in their rows
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

int64_t Positions(const SpaceTime& s) { return int64_t{s.time} * s.height * s.width; }

int64_t Start(int64_t i, int64_t window, int64_t length) {
  return std::clamp<int64_t>(i - window / 2, 0, std::max<int64_t>(0, length - window));
}

// The rows of k that the query in position (t, h, w) of the grid sees.
std::vector<int64_t> KeysOf(const Case& c, int64_t t, int64_t h, int64_t w) {
  std::vector<int64_t> rows;
  const int64_t t0 = Start(t, c.window.time, c.grid.time), h0 = Start(h, c.window.height, c.grid.height);
  const int64_t w0 = Start(w, c.window.width, c.grid.width);
  for (int64_t i = t0; i < t0 + std::min(c.window.time, c.grid.time); ++i) {
    for (int64_t j = h0; j < h0 + std::min(c.window.height, c.grid.height); ++j) {
      for (int64_t k = w0; k < w0 + std::min(c.window.width, c.grid.width); ++k) {
        rows.push_back((i * c.grid.height + j) * c.grid.width + k);
      }
    }
  }
  return rows;
}

void ReferenceRow(const Tensor& q, const Tensor& k, const Tensor& v, const Case& c, float scale, int64_t row, int h,
                  const std::vector<int64_t>& keys, float* out) {
  const int64_t d = c.head_width;
  std::vector<double> logits(keys.size()), values(d);
  for (size_t j = 0; j < keys.size(); ++j) {
    double dot = 0;
    for (int64_t x = 0; x < d; ++x) dot += At(q, row, h * d + x) * At(k, keys[j], h * d + x);
    logits[j] = dot * scale;
  }
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (size_t j = 0; j < keys.size(); ++j) {
    const double p = std::exp(logits[j] - max);
    sum += p;
    for (int64_t x = 0; x < d; ++x) values[x] += p * At(v, keys[j], h * d + x);
  }
  for (int64_t x = 0; x < d; ++x) out[x] = static_cast<float>(values[x] / sum);
}

HostTensor Reference(const Tensor& q, const Tensor& k, const Tensor& v, const Case& c, float scale) {
  HostTensor out(DType::kF32, {q.rows(), q.width()});
  for (int64_t row = 0; row < q.rows(); ++row) {
    const int64_t t = row / c.queries.width / c.queries.height, h = row / c.queries.width % c.queries.height;
    const auto keys = KeysOf(c, c.first.time + t, c.first.height + h, c.first.width + row % c.queries.width);
    for (int head = 0; head < c.heads; ++head) {
      ReferenceRow(q, k, v, c, scale, row, head, keys, &out.f32()[(row * c.heads + head) * c.head_width]);
    }
  }
  return out;
}

NeighbourhoodOptions OptionsOf(const Case& c) {
  return {.heads = c.heads,
          .scale = 1.0f / std::sqrt(static_cast<float>(c.head_width)),
          .grid = c.grid,
          .window = c.window,
          .first = c.first,
          .queries = c.queries};
}

class Neighbourhood : public testing::TestWithParam<std::tuple<TestedBackend, Case>> {};

// In f32, in bf16, and in bf16 with f32 results. Keys and values are columns of one tensor.
TEST_P(Neighbourhood, EqualsTheDefinition) {
  const Case& c = std::get<1>(GetParam());
  Device device(std::get<0>(GetParam()));
  struct Types {
    DType in, out;
    double tolerance;
  };
  for (const Types& types : {Types{DType::kF32, DType::kF32, 2e-6}, Types{DType::kBF16, DType::kF32, 4e-3},
                             Types{DType::kBF16, DType::kBF16, 8e-3}}) {
    const NeighbourhoodOptions o = OptionsOf(c);
    const int64_t width = c.heads * c.head_width;
    const HostTensor q = Random(types.in, {Positions(c.queries), c.gap + width}, 1, 2.0f);
    const HostTensor kv = Random(types.in, {Positions(c.grid), c.gap + 2 * width}, 2, 1.5f);
    const auto first = [&](const Tensor& t) { return t.Columns(c.gap, c.gap + width); };
    const auto second = [&](const Tensor& t) { return t.Columns(c.gap + width, c.gap + 2 * width); };
    const HostTensor expected = Reference(first(q.tensor()), first(kv.tensor()), second(kv.tensor()), c, o.scale);
    const Tensor device_q = device.Upload(q.tensor()), device_kv = device.Upload(kv.tensor());
    const Tensor out = device.Output(types.out, q.tensor().shape());
    device.ops().NeighbourhoodAttention(first(device_q), first(device_kv), second(device_kv), o, first(out));
    EXPECT_TRUE(Near(Behind(device.Download(out), c.gap).tensor(), expected.tensor(), types.tolerance))
        << DTypeName(types.in) << " to " << DTypeName(types.out);
  }
}

std::vector<Case> Cases() {
  return {
      {.name = "Small", .grid = {3, 4, 5}, .window = {3, 3, 3}, .queries = {3, 4, 5}, .head_width = 8},
      {.name = "WindowIsTheGrid", .grid = {3, 5, 7}, .window = {3, 5, 7}, .queries = {3, 5, 7}},
      {.name = "WindowBeyondTheGrid", .grid = {2, 5, 6}, .window = {3, 7, 7}, .queries = {2, 5, 6}},
      {.name = "Point", .grid = {2, 3, 9}, .window = {1, 1, 1}, .queries = {2, 3, 9}},
      {.name = "Released",
       .grid = {12, 13, 13},
       .window = {11, 11, 11},
       .queries = {12, 13, 13},
       .heads = 1,
       .head_width = 64},
      {.name = "Stage3", .grid = {6, 9, 18}, .window = {3, 5, 5}, .queries = {6, 9, 18}, .head_width = 64, .gap = 8},
      {.name = "BoxInside", .grid = {20, 9, 23}, .window = {5, 3, 7}, .first = {7, 2, 5}, .queries = {9, 5, 14}},
      {.name = "BoxAtTheEnd",
       .grid = {19, 8, 9},
       .window = {5, 5, 5},
       .first = {2, 3, 4},
       .queries = {17, 5, 5},
       .gap = 3},
      {.name = "Wide",
       .grid = {2, 20, 40},
       .window = {1, 17, 31},
       .queries = {2, 20, 40},
       .heads = 1,
       .head_width = 128},
  };
}

INSTANTIATE_TEST_SUITE_P(On, Neighbourhood, testing::Combine(testing::ValuesIn(Backends()), testing::ValuesIn(Cases())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
                         });

// A clip that is computed in slabs of time has the bits of the whole.
class NeighbourhoodInSlabs : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, NeighbourhoodInSlabs, testing::ValuesIn(Backends()), BackendName);

TEST_P(NeighbourhoodInSlabs, HasTheBitsOfTheWhole) {
  constexpr int kFrames = 22, kPlane = 6 * 7;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Case whole{
        .name = "", .grid = {kFrames, 6, 7}, .window = {5, 3, 5}, .queries = {kFrames, 6, 7}, .head_width = 64};
    Device device(GetParam());
    const auto upload = [&](int seed, float scale) {
      return device.Upload(Random(dtype, {kFrames * kPlane, whole.heads * whole.head_width}, seed, scale).tensor());
    };
    const Tensor q = upload(1, 2.0f), k = upload(2, 1.5f), v = upload(3, 1.5f);
    const Tensor expected = device.Output(dtype, q.shape()), slabs = device.Output(dtype, q.shape());
    device.ops().NeighbourhoodAttention(q, k, v, OptionsOf(whole), expected);
    for (int begin = 0; begin < kFrames; begin += 8) {
      const int end = std::min(kFrames, begin + 8);
      const int first_key = std::clamp(begin - 2, 0, kFrames - 5) / kNeighbourhoodFrames * kNeighbourhoodFrames;
      const int last_key = std::min(kFrames, end + 2);
      Case slab = whole;
      slab.grid.time = last_key - first_key;
      slab.first.time = begin - first_key;
      slab.queries.time = end - begin;
      const auto keys = [&](const Tensor& t) { return t.Rows(first_key * kPlane, last_key * kPlane); };
      device.ops().NeighbourhoodAttention(q.Rows(begin * kPlane, end * kPlane), keys(k), keys(v), OptionsOf(slab),
                                          slabs.Rows(begin * kPlane, end * kPlane));
    }
    const HostTensor a = device.Download(expected), b = device.Download(slabs);
    EXPECT_EQ(std::memcmp(a.tensor().raw(), b.tensor().raw(), a.tensor().bytes()), 0) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace kinora

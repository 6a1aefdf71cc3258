// The softmax kernel in all its forms, against its definition in double precision.
#include "kernels/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/simt/control.h"
#include "tests/simt/device_buffer.h"

namespace kinora::kernels {
namespace {

using simt::DeviceArray;
using Floats = std::vector<float>;

struct Form {
  std::string name;
  int64_t matrices, rows, keys;
  int64_t first_query = 0, gap = 0;  // gap: elements after each row of logits, beyond whole vectors
  Type type = Type::kF32;
  bool causal = false, bias = false, in_place = false;
  int64_t window = 0;
  int64_t stride() const { return (keys + 7) / 8 * 8 + gap; }
  bool Sees(int64_t query, int64_t key) const {
    return !causal || (key <= query && (window == 0 || query - key < window));
  }
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class SoftmaxTest : public testing::TestWithParam<Form> {
 protected:
  SoftmaxTest() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~SoftmaxTest() override { cudaStreamDestroy(stream_); }
  cudaStream_t stream_ = nullptr;
};

std::vector<double> Define(const Form& f, const float* logits, const float* bias, int64_t query) {
  std::vector<double> weights(f.keys, 0.0);
  double maximum = -1e300, sum = 0;
  const auto logit = [&](int64_t j) { return 0.25 * logits[j] + (f.bias ? bias[query * f.keys + j] : 0.0f); };
  for (int64_t j = 0; j < f.keys; ++j) {
    if (f.Sees(query, j)) maximum = std::max(maximum, logit(j));
  }
  for (int64_t j = 0; j < f.keys; ++j) sum += weights[j] = f.Sees(query, j) ? std::exp(logit(j) - maximum) : 0.0;
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 0;
  return weights;
}

TEST_P(SoftmaxTest, IsItsDefinition) {
  const Form& f = GetParam();
  const int64_t rows = f.matrices * f.rows, stride = f.stride();
  Floats logits(rows * stride, std::nanf("")), bias((f.first_query + f.rows) * f.keys);
  for (int64_t i = 0; i < rows * f.keys; ++i) {
    logits[i / f.keys * stride + i % f.keys] = 30.0f * std::sin(static_cast<float>(0.37 * static_cast<double>(i)));
  }
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = std::sin(0.3f * static_cast<float>(i));
  const DeviceArray<float> dlogits(logits, stream_), dbias(bias, stream_);
  const DeviceArray<float> wide(Floats(rows * stride, std::nanf("")), stream_);
  const DeviceArray<uint16_t> narrow(std::vector<uint16_t>(rows * stride, 0xffff), stream_);
  Softmax softmax{.logits = dlogits.data(), .stride = stride};
  void* const f32 = f.in_place ? dlogits.data() : wide.data();
  softmax.weights = {f.type == Type::kBf16 ? static_cast<void*>(narrow.data()) : f32, stride, f.type};
  softmax.matrices = f.matrices, softmax.rows = f.rows, softmax.keys = f.keys, softmax.first_query = f.first_query;
  softmax.scale = 0.25f, softmax.causal = f.causal, softmax.window = f.window;
  if (f.bias) softmax.bias = dbias.data(), softmax.bias_stride = f.keys;
  ASSERT_EQ(LaunchSoftmax(softmax, stream_), cudaSuccess);
  Floats got = f.in_place ? dlogits.Read(stream_) : wide.Read(stream_);
  if (f.type == Type::kBf16) {
    got.clear();
    for (const uint16_t bits : narrow.Read(stream_)) got.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
  }
  ASSERT_EQ(simt::Failure(), "");
  const double tolerance = f.type == Type::kBf16 ? 4e-3 : 1e-5;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> expected = Define(f, &logits[row * stride], bias.data(), f.first_query + row % f.rows);
    for (int64_t j = 0; j < f.keys; ++j) {
      ASSERT_NEAR(got[row * stride + j], expected[j], tolerance * (1e-3 + expected[j]))
          << "row " << row << " key " << j;
    }
  }
}

const Form kForms[] = {
    {.name = "OneKey", .matrices = 2, .rows = 3, .keys = 1},
    {.name = "LessThanAVector", .matrices = 1, .rows = 9, .keys = 5, .type = Type::kBf16},
    {.name = "OddKeys", .matrices = 2, .rows = 5, .keys = 301},
    {.name = "RowsApartInPlace", .matrices = 2, .rows = 5, .keys = 64, .gap = 16, .in_place = true},
    {.name = "LongestRowOfAWarp", .matrices = 1, .rows = 2, .keys = 2048, .type = Type::kBf16},
    {.name = "ARowOfABlock", .matrices = 1, .rows = 3, .keys = 2049},
    {.name = "ALongRowInPlace", .matrices = 2, .rows = 1, .keys = 9001, .in_place = true},
    {.name = "Causal", .matrices = 2, .rows = 20, .keys = 40, .first_query = 13, .causal = true},
    {.name = "CausalWindow", .matrices = 1, .rows = 60, .keys = 60, .type = Type::kBf16, .causal = true, .window = 7},
    {.name = "RowsThatSeeNothing", .matrices = 2, .rows = 30, .keys = 12, .causal = true, .window = 4},
    {.name = "LongCausalWindow",
     .matrices = 1,
     .rows = 2,
     .keys = 3000,
     .first_query = 2500,
     .causal = true,
     .window = 1000},
    {.name = "Bias", .matrices = 3, .rows = 4, .keys = 37, .first_query = 2, .bias = true},
    {.name = "CausalBias", .matrices = 1, .rows = 4, .keys = 37, .type = Type::kBf16, .causal = true, .bias = true},
};
INSTANTIATE_TEST_SUITE_P(All, SoftmaxTest, testing::ValuesIn(kForms), [](const auto& info) { return info.param.name; });

TEST_F(SoftmaxTest, RefusesRowsThatAreNotMadeOfVectors) {
  const DeviceArray<float> memory(64);
  Softmax fine{.logits = memory.data(), .stride = 16, .weights = {memory.data(), 16, Type::kF32}};
  fine.matrices = fine.rows = 1, fine.keys = 12;
  Softmax odd = fine, shifted = fine, narrow = fine, empty = fine;
  odd.stride = 12, shifted.logits = memory.data() + 1, narrow.weights.stride = 8, empty.keys = 0;
  for (const Softmax& wrong : {odd, shifted, narrow, empty}) {
    EXPECT_EQ(LaunchSoftmax(wrong, stream_), cudaErrorInvalidValue);
  }
}

}  // namespace
}  // namespace kinora::kernels

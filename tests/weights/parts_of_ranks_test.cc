// The parts that a rank loads of weights split by vectors or distributed by whole layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/weights/loading.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Loading, AnInterleavedProjectionBecomesOneMatrixAVector) {
  const Floats w = Numbers(2 * 3 * 4), bias = Numbers(2);
  Add("p.weight", {2, 12}, w);
  Add("p.bias", {2}, bias);
  WeightLoader loader = Open();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto parts, loader.LoadInterleaved("p", {.out = 2, .in = 3, .count = 4, .end = 4}));
  ASSERT_EQ(parts.size(), 4);
  for (int n = 0; n < 4; ++n) {
    Floats expected, read_bias;
    for (int o = 0; o < 2; ++o) {
      for (int i = 0; i < 3; ++i) expected.push_back(w[o * 12 + i * 4 + n]);
    }
    EXPECT_EQ(Matrix(parts[n], &read_bias), expected) << n;
    EXPECT_EQ(read_bias, n == 0 ? bias : Floats(2, 0));
  }
}

TEST_F(Loading, APartOfAnInterleavedProjectionHasTheBiasIfItBeginsWithTheFirst) {
  const Floats w = Numbers(2 * 3 * 4), bias = Numbers(2);
  Add("p.weight", {2, 12}, w);
  Add("p.bias", {2}, bias);
  WeightLoader loader = Open();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto all, loader.LoadInterleaved("p", {.out = 2, .in = 3, .count = 4, .end = 4}));
  const auto part = [&](int64_t begin, int64_t end) {
    return loader.LoadInterleaved("p", {.out = 2, .in = 3, .count = 4, .begin = begin, .end = end}).value();
  };
  const auto head = part(0, 1), tail = part(1, 4);
  ASSERT_EQ(head.size(), 1);
  ASSERT_EQ(tail.size(), 3);
  Floats read_bias;
  EXPECT_EQ(Matrix(head[0], &read_bias), Matrix(all[0]));
  EXPECT_EQ(read_bias, bias);
  for (int n = 0; n < 3; ++n) {
    EXPECT_EQ(Matrix(tail[n], &read_bias), Matrix(all[n + 1])) << n;
    EXPECT_EQ(read_bias, Floats(2, 0)) << n;
  }
}

TEST_F(Loading, WhatAnotherRankHoldsIsCheckedButNotRead) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Add("a.weight", {2, 3}, Floats(6, nan));
  Add("norm", {3}, Floats(3, nan));
  WeightLoader elsewhere = Open().HeldElsewhere();
  EXPECT_THAT(elsewhere.LoadWeight({"a"}, {.out = 2, .in = 3, .bias = false}), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const Parameter norm, elsewhere.LoadTensor("norm", {3}));
  EXPECT_EQ(norm.tensor().raw(), nullptr);
  EXPECT_EQ(elsewhere.tensor_bytes(), 0);
  EXPECT_THAT(elsewhere.Finish(), IsOk());  // this rank neither loads the values nor reports them as unread
  EXPECT_THAT(elsewhere.LoadTensor("gone", {3}), IsOk());
  EXPECT_THAT(elsewhere.LoadWeight({"a"}, {.out = 3, .in = 2, .bias = false}), IsOk());
  EXPECT_THAT(elsewhere.Finish(),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("gone: missing"), HasSubstr("the configuration needs [3, 2]"))));
}

}  // namespace
}  // namespace kinora

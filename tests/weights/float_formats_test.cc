#include "engine/weights/float_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace kinora {
namespace {

// The format's definition in double precision: (−1)^s · 2^(e − bias) · 1.m, or 2^(1 − bias) · 0.m if e = 0.
double Value(int bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = bits >> (exponent_bits + mantissa_bits) ? -1 : 1;
  const double fraction = mantissa / std::pow(2.0, mantissa_bits);
  return sign * (exponent == 0 ? fraction * std::pow(2.0, 1 - bias) : (1 + fraction) * std::pow(2.0, exponent - bias));
}

TEST(FloatFormats, EveryF16HasTheValueOfItsDefinition) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float wide = F16ToF32(static_cast<uint16_t>(bits));
    if ((bits & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(wide), (bits & 0x3ff) != 0) << bits;
      EXPECT_EQ(std::isinf(wide), (bits & 0x3ff) == 0) << bits;
    } else {
      ASSERT_EQ(wide, Value(bits, 5, 10)) << bits;
    }
    ASSERT_EQ(std::signbit(wide), bits >> 15 != 0) << bits;
  }
}

TEST(FloatFormats, EveryF8HasTheValueOfItsDefinition) {
  for (int bits = 0; bits < 256; ++bits) {
    const float e4m3 = F8E4M3ToF32(static_cast<uint8_t>(bits));
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(e4m3));
    } else {
      EXPECT_EQ(e4m3, Value(bits, 4, 3)) << bits;
    }
    const float e5m2 = F8E5M2ToF32(static_cast<uint8_t>(bits));
    if ((bits & 0x7c) == 0x7c) {
      EXPECT_EQ(std::isinf(e5m2), (bits & 3) == 0) << bits;
      EXPECT_EQ(std::isnan(e5m2), (bits & 3) != 0) << bits;
    } else {
      EXPECT_EQ(e5m2, Value(bits, 5, 2)) << bits;
    }
  }
  EXPECT_EQ(F8E4M3ToF32(0x7e), 448.0f);
  EXPECT_EQ(F8E5M2ToF32(0x7b), 57344.0f);
  EXPECT_EQ(F8E4M3ToF32(0x01), std::ldexp(1.0f, -9));
}

TEST(FloatFormats, WideningReadsUnalignedElementsOfEachFormat) {
  const std::vector<uint8_t> bytes = {0xff, 0x00, 0x3c, 0x80, 0x3f};  // from byte 1: f16 1, bf16 1
  std::vector<float> out(1);
  WidenToF32(DType::kF16, bytes.data() + 1, 1, out.data());
  EXPECT_EQ(out[0], 1.0f);
  WidenToF32(DType::kBF16, bytes.data() + 3, 1, out.data());
  EXPECT_EQ(out[0], 1.0f);
  const float pi = 3.14159274f;
  std::vector<uint8_t> wide(5);
  std::memcpy(wide.data() + 1, &pi, 4);
  WidenToF32(DType::kF32, wide.data() + 1, 1, out.data());
  EXPECT_EQ(out[0], pi);
}

TEST(FloatFormatsDeathTest, IntegersAreNotWidened) {
  float out;
  const int64_t value = 1;
  EXPECT_DEATH(WidenToF32(DType::kI64, &value, 1, &out), "i64 is not a floating-point format");
}

}  // namespace
}  // namespace kinora

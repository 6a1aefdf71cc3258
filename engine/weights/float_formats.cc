#include "engine/weights/float_formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/check.h"

namespace kinora {
namespace {

// Sign, exponent and mantissa of a small IEEE-like format. ldexp is exact here: every value is a normal float32.
float Decode(bool negative, int exponent, int mantissa, int mantissa_bits, int bias) {
  const int significand = exponent == 0 ? mantissa : mantissa | (1 << mantissa_bits);
  const float magnitude =
      std::ldexp(static_cast<float>(significand), (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  return negative ? -magnitude : magnitude;
}

float Special(bool negative, bool nan) {
  const float magnitude = nan ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  return std::copysign(magnitude, negative ? -1.0f : 1.0f);
}

template <float (*convert)(uint8_t)>
const std::array<float, 256>& Table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values;
    for (int i = 0; i < 256; ++i) values[i] = convert(static_cast<uint8_t>(i));
    return values;
  }();
  return table;
}

template <typename Widen>
void WidenHalves(const uint8_t* bytes, int64_t count, float* out, Widen widen) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof(bits));
    out[i] = widen(bits);
  }
}

// Whether any element has all bits of `exponent` set.
template <typename Bits>
bool AnyHas(Bits exponent, const void* values, int64_t count) {
  constexpr int64_t kBlock = 4096;  // one branch per block, so that the inner loop vectorises
  const auto* bytes = static_cast<const uint8_t*>(values);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    Bits found = 0;
    for (int64_t i = begin, end = std::min(count, begin + kBlock); i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
      found |= static_cast<Bits>((bits & exponent) == exponent);
    }
    if (found != 0) return true;
  }
  return false;
}

}  // namespace

// Shifted into place, the exponent is 112 too small, for subnormals too; infinity and NaN keep all exponent bits set.
// Branch-free, so that loops vectorise.
float F16ToF32(uint16_t bits) {
  const float magnitude = std::bit_cast<float>(static_cast<uint32_t>(bits & 0x7fff) << 13) * 0x1p112f;
  const uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | special | sign);
}

float F8E4M3ToF32(uint8_t bits) {
  const bool negative = bits >> 7;
  if ((bits & 0x7f) == 0x7f) return Special(negative, /*nan=*/true);
  return Decode(negative, (bits >> 3) & 0xf, bits & 7, 3, 7);
}

float F8E5M2ToF32(uint8_t bits) {
  const bool negative = bits >> 7;
  const int exponent = (bits >> 2) & 0x1f;
  if (exponent == 0x1f) return Special(negative, (bits & 3) != 0);
  return Decode(negative, exponent, bits & 3, 2, 15);
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF8E4M3 ||
         dtype == DType::kF8E5M2;
}

bool AllFinite(DType dtype, const void* values, int64_t count) {
  KINORA_CHECK(dtype == DType::kF32 || dtype == DType::kBF16) << DTypeName(dtype);
  return dtype == DType::kF32 ? !AnyHas<uint32_t>(0x7f800000u, values, count)
                              : !AnyHas<uint16_t>(0x7f80u, values, count);
}

void WidenToF32(DType dtype, const void* from, int64_t count, float* out) {
  KINORA_CHECK(IsFloat(dtype)) << DTypeName(dtype) << " is not a floating-point format";
  const auto* bytes = static_cast<const uint8_t*>(from);
  if (dtype == DType::kF32) {
    std::memcpy(out, from, count * sizeof(float));
  } else if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) {
    const std::array<float, 256>& table = dtype == DType::kF8E4M3 ? Table<F8E4M3ToF32>() : Table<F8E5M2ToF32>();
    for (int64_t i = 0; i < count; ++i) out[i] = table[bytes[i]];
  } else if (dtype == DType::kBF16) {
    WidenHalves(bytes, count, out,
                [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); });
  } else {
    WidenHalves(bytes, count, out, F16ToF32);
  }
}

}  // namespace kinora

// Element types. Computation supports f32 and bf16; the others occur in files and as indices.
#ifndef KINORA_ENGINE_TENSOR_DTYPE_H_
#define KINORA_ENGINE_TENSOR_DTYPE_H_

#include <bit>
#include <cstdint>
#include <string_view>

namespace kinora {

enum class DType : uint8_t { kF32, kBF16, kF16, kF8E4M3, kF8E5M2, kI64, kI32, kU8, kBool };

int64_t DTypeSize(DType dtype);           // bytes of one element
std::string_view DTypeName(DType dtype);  // "f32", "bf16", …

// The upper half of a float32. Conversion rounds to nearest even and keeps NaN a NaN.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_DTYPE_H_

// Exact widening of the floating-point formats that occur in checkpoints.
#ifndef KINORA_ENGINE_WEIGHTS_FLOAT_FORMATS_H_
#define KINORA_ENGINE_WEIGHTS_FLOAT_FORMATS_H_

#include <cstdint>

#include "engine/tensor/dtype.h"

namespace kinora {

// float32 holds every value of each of these formats, so widening loses nothing.
float F16ToF32(uint16_t bits);
float F8E4M3ToF32(uint8_t bits);  // the "fn" variant: no infinities, 0x7f and 0xff are NaN, largest 448
float F8E5M2ToF32(uint8_t bits);  // IEEE-like: infinities and NaN, largest 57344

bool IsFloat(DType dtype);  // f32, bf16, f16 and the two f8

// Whether no element is NaN or infinite. values: kF32 or kBF16.
bool AllFinite(DType dtype, const void* values, int64_t count);

// from: `count` elements of a floating-point dtype, any alignment.   out: [count]. CHECK-fails on other dtypes.
void WidenToF32(DType dtype, const void* from, int64_t count, float* out);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_FLOAT_FORMATS_H_

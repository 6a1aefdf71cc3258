// Inputs of op tests, and elements of tensors in f32 or bf16 whatever their type.
#ifndef KINORA_TESTS_TESTING_OP_VALUES_H_
#define KINORA_TESTS_TESTING_OP_VALUES_H_

#include "tests/testing/golden.h"

namespace kinora {

// Normal values with the standard deviation `scale`; the same for the same seed. dtype: f32 or bf16
HostTensor Random(DType dtype, const Shape& shape, int seed, float scale = 1.0f);

// t: f32 or bf16, of rank 2
double At(const Tensor& t, int64_t row, int64_t column);

// The columns of `whole` from `gap` on, contiguous, in f32.
HostTensor Behind(const HostTensor& whole, int64_t gap);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_OP_VALUES_H_

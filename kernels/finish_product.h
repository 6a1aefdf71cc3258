// Bias, activation and sum after a product whose library has no epilogue for them.
#ifndef KINORA_KERNELS_FINISH_PRODUCT_H_
#define KINORA_KERNELS_FINISH_PRODUCT_H_

#include <cuda_runtime.h>

#include "kernels/row_norm.h"
#include "kernels/rows.h"

namespace kinora::kernels {

// out (=, or with `add` +=) activation(y + bias), rounded once. out may be y. Lowers *bad_row to the first row with a
// result that is not finite.
// Minimum traffic: y and out once each, out twice with `add`; the bias is read from the second-level cache.
struct FinishProduct {
  int64_t rows = 0, width = 0;
  Rows y;
  const float* bias = nullptr;  // [width]; null: none
  NormActivation activation = NormActivation::kNone;
  bool add = false;
  Rows out;
  int32_t* bad_row = nullptr;  // null: not checked
};

// Returns cudaErrorInvalidValue if there are no rows or no columns.
cudaError_t LaunchFinishProduct(const FinishProduct& finish, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_FINISH_PRODUCT_H_

// Every op of Ops at a few shapes, to compare backends and to measure time.
#ifndef KINORA_TESTS_GPU_CHECK_OP_CASES_H_
#define KINORA_TESTS_GPU_CHECK_OP_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/gpu_check/workbench.h"

namespace kinora {

struct PreparedOp {
  std::function<void()> run;
  Tensor out;  // the op's output
};

struct OpCase {
  std::string op, shape;
  DType dtype = DType::kF32;
  // The result must not outlive the workbench.
  std::function<PreparedOp(Workbench&)> prepare;
};

// Norms, modulation and elementwise ops on [rows, width]; width must be a multiple of 128.
std::vector<OpCase> RowCases(int64_t rows, int64_t width, DType dtype);
// Products, attention and convolutions.
std::vector<OpCase> ProductCases();
// Attention of all positions of a grid to the windows around them, with heads of `width` columns.
OpCase NeighbourhoodCase(const SpaceTime& grid, const SpaceTime& window, int heads, int64_t width, DType dtype);
// Ops for sound, space-time rearrangement, lookups and the denoising loop.
std::vector<OpCase> OtherCases();
// All cases, at small shapes.
std::vector<OpCase> AllCases();

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_OP_CASES_H_

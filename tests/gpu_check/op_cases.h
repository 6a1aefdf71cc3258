// Every op of Ops at a few shapes: what is compared between backends, and what is timed.
#ifndef KINORA_TESTS_GPU_CHECK_OP_CASES_H_
#define KINORA_TESTS_GPU_CHECK_OP_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/gpu_check/workbench.h"

namespace kinora {

struct PreparedOp {
  std::function<void()> run;
  Tensor out;  // what it writes
};

struct OpCase {
  std::string op, shape;
  DType dtype = DType::kF32;
  // The workbench must outlive what comes out.
  std::function<PreparedOp(Workbench&)> prepare;
};

// Norms, modulation and what works element by element, on [rows, width]; width is a multiple of 128.
std::vector<OpCase> RowCases(int64_t rows, int64_t width, DType dtype);
// Products, attention and convolutions.
std::vector<OpCase> ProductCases();
// Sound, space-time, lookups and the denoising loop.
std::vector<OpCase> OtherCases();
// All of them, at small shapes.
std::vector<OpCase> AllCases();

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_OP_CASES_H_

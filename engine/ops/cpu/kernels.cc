#include "engine/ops/cpu/kernels.h"

namespace kinora::cpu {

namespace avx512bf16 {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace baseline {
extern const Kernels kKernels;
}

const Kernels& SelectKernels() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16")) {
    return avx512bf16::kKernels;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kKernels;
  return baseline::kKernels;
}

}  // namespace kinora::cpu

#include "engine/base/cpu_path.h"

namespace kinora {

CpuPath ThisCpuPath() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16")) {
    return CpuPath::kAvx512Bf16;
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? CpuPath::kAvx2 : CpuPath::kBaseline;
}

const char* CpuPathName(CpuPath path) {
  return path == CpuPath::kAvx512Bf16 ? "AVX-512 BF16" : path == CpuPath::kAvx2 ? "AVX2" : "SSE2";
}

}  // namespace kinora

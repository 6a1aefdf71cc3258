#include "engine/ops/cpu/kernels.h"

#include "engine/base/cpu_path.h"

namespace kinora::cpu {

namespace amx {
extern const Kernels kKernels;
}
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
  switch (ThisCpuPath()) {
    case CpuPath::kAmxBf16:
      return amx::kKernels;
    case CpuPath::kAvx512Bf16:
      return avx512bf16::kKernels;
    case CpuPath::kAvx2:
      return avx2::kKernels;
    default:
      return baseline::kKernels;
  }
}

}  // namespace kinora::cpu

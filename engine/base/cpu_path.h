// Which of the instruction sets that the CPU's kernels are compiled for this machine computes with.
#ifndef KINORA_ENGINE_BASE_CPU_PATH_H_
#define KINORA_ENGINE_BASE_CPU_PATH_H_

namespace kinora {

enum class CpuPath { kBaseline, kAvx2, kAvx512Bf16 };

// The widest that this machine has.
CpuPath ThisCpuPath();

// "AVX-512 BF16", "AVX2", or that of any machine of the architecture, "SSE2".
const char* CpuPathName(CpuPath path);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CPU_PATH_H_

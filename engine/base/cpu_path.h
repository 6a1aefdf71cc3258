// Which of the instruction sets that the CPU's kernels are compiled for this machine computes with.
#ifndef KINORA_ENGINE_BASE_CPU_PATH_H_
#define KINORA_ENGINE_BASE_CPU_PATH_H_

namespace kinora {

enum class CpuPath { kBaseline, kAvx2, kAvx512Bf16, kAmxBf16 };  // each with all before it

// The widest that this machine has and that KINORA_MAX_CPU_PATH allows, which tests and comparisons set: "sse2",
// "avx2", "avx512_bf16" or "amx_bf16"; empty: any. Another value ends the program with a message. The first call asks
// the kernel for AMX's registers, for all threads of the process.
CpuPath ThisCpuPath();

// "AMX BF16", "AVX-512 BF16", "AVX2", or that of any machine of the architecture, "SSE2".
const char* CpuPathName(CpuPath path);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CPU_PATH_H_

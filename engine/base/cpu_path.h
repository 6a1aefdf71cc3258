// Selects the instruction set that the CPU's kernels use on this machine.
#ifndef KINORA_ENGINE_BASE_CPU_PATH_H_
#define KINORA_ENGINE_BASE_CPU_PATH_H_

namespace kinora {

enum class CpuPath { kBaseline, kAvx2, kAvx512Bf16, kAmxBf16 };  // each includes all before it

// Returns the widest path that this machine supports and KINORA_MAX_CPU_PATH allows: "sse2", "avx2", "avx512_bf16" or
// "amx_bf16"; empty or unset: any. Tests and comparisons set it; another value ends the program with a message. The
// first call requests AMX's registers from the kernel, for all threads of the process.
CpuPath ThisCpuPath();

// "AMX BF16", "AVX-512 BF16", "AVX2" or "SSE2" (any machine of the architecture).
const char* CpuPathName(CpuPath path);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CPU_PATH_H_

#include "engine/base/cpu_path.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kinora {
namespace {

// Whether the CPU has AMX's bf16 products and Linux permits the use of their registers.
bool HasAmxBf16() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;  // CPUID leaf 7, EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

CpuPath Allowed() {
  const char* const name = std::getenv("KINORA_MAX_CPU_PATH");
  if (name == nullptr || *name == '\0') return CpuPath::kAmxBf16;
  for (const auto& [known, path] : {std::pair("sse2", CpuPath::kBaseline),
                                    {"avx2", CpuPath::kAvx2},
                                    {"avx512_bf16", CpuPath::kAvx512Bf16},
                                    {"amx_bf16", CpuPath::kAmxBf16}}) {
    if (std::string_view(known) == name) return path;
  }
  std::fprintf(stderr, "KINORA_MAX_CPU_PATH=%s: want sse2, avx2, avx512_bf16 or amx_bf16\n", name);
  std::_Exit(2);  // no destructors: other threads may run
}

CpuPath Widest(CpuPath allowed) {
  if (allowed >= CpuPath::kAvx512Bf16 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bf16")) {
    return allowed >= CpuPath::kAmxBf16 && HasAmxBf16() ? CpuPath::kAmxBf16 : CpuPath::kAvx512Bf16;
  }
  const bool avx2 = allowed >= CpuPath::kAvx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 ? CpuPath::kAvx2 : CpuPath::kBaseline;
}

}  // namespace

CpuPath ThisCpuPath() {
  static const CpuPath path = Widest(Allowed());
  return path;
}

const char* CpuPathName(CpuPath path) {
  switch (path) {
    case CpuPath::kAmxBf16:
      return "AMX BF16";
    case CpuPath::kAvx512Bf16:
      return "AVX-512 BF16";
    case CpuPath::kAvx2:
      return "AVX2";
    case CpuPath::kBaseline:
      break;
  }
  return "SSE2";
}

}  // namespace kinora

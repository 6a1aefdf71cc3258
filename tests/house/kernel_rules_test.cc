// The laws of kernels (kernels/README.md), by which the same source is CUDA and runs on the simulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/house/tree.h"

namespace kinora {
namespace {

struct Law {
  const char* what;
  const char* broken;                // a regular expression
  std::vector<std::string> where{};  // files that may
};

const std::vector<Law>& Laws() {
  static const auto* laws = new std::vector<Law>{
      {"Launch starts a kernel, nothing else does",
       R"(<<<|cudaLaunchKernel|cudaLaunchCooperative)",
       {"kernels/device/device.h"}},
      {"shared memory is SHARED_ARRAY or DynamicShared", R"(__shared__)", {"kernels/device/device.h"}},
      {"PTX stands in kernels/device/ptx.h, with its twin in tests/simt/simt.h",
       R"(\basm\b|wmma|\bcuda::|\bcg::|cooperative_groups)",
       {"kernels/device/ptx.h"}},
      {"a kernel does not ask what compiles it",
       R"(__CUDA_ARCH__|__CUDACC__|KINORA_SIMT)",
       {"kernels/device/device.h", "kernels/device/ptx.h"}},
      {"warp operations have a mask", R"(\b(__shfl(_up|_down|_xor)?|__ballot|__any|__all)\s*\()"},
      {"no variables on the device", R"(^\s*(static\s+)?(__device__|__constant__)\s+[\w:<>]+\s+\w+\s*(=|;|\[))"},
      {"no allocation and no printing", R"(\b(malloc|free|printf|new)\s*\()"},
  };
  return *laws;
}

bool IsKernel(const Source& source) { return source.path.starts_with("kernels/"); }

TEST(KernelRules, EveryKernelKeepsTheLaws) {
  int kernels = 0;
  for (const Source& source : CppSources()) {
    if (!IsKernel(source)) continue;
    for (size_t i = 0; i < source.lines.size(); ++i) {
      const std::string code = source.lines[i].substr(0, source.lines[i].find("//"));
      kernels += code.find("__global__") != std::string::npos ? 1 : 0;
      for (const Law& law : Laws()) {
        if (!std::regex_search(code, std::regex(law.broken))) continue;
        EXPECT_THAT(law.where, testing::Contains(source.path)) << law.what << ": " << source.path << ":" << i + 1;
      }
    }
  }
  EXPECT_GT(kernels, 0);
}

// g++ 12's __builtin_clear_padding clears wrong bytes of structs with arrays of structs, and addresses among them.
TEST(KernelRules, ArgumentsHoldNoArrays) {
  const std::regex member(R"(^  [\w:<>]+\s+\w+\[[^\]]*\]\s*(=|;|\{))");
  for (const Source& source : CppSources()) {
    if (!IsKernel(source) || source.path.starts_with("kernels/device/") || !source.path.ends_with(".h")) continue;
    for (size_t i = 0; i < source.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(source.lines[i], member)) << source.path << ":" << i + 1;
    }
  }
}

}  // namespace
}  // namespace kinora

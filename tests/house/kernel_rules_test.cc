// Rules for kernels (kernels/README.md), so that the same source compiles as CUDA and runs on the simulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/house/tree.h"

namespace kinora {
namespace {

struct Rule {
  const char* what;
  const char* violation;             // a regular expression
  std::vector<std::string> where{};  // files exempt from the rule
};

const std::vector<Rule>& Rules() {
  static const auto* rules = new std::vector<Rule>{
      {"only Launch and LaunchEarly start kernels",
       R"(<<<|cudaLaunchKernel|cudaLaunchCooperative)",
       {"kernels/device/device.h"}},
      {"shared memory is SHARED_ARRAY or DynamicShared", R"(__shared__)", {"kernels/device/device.h"}},
      {"PTX is in kernels/device/ptx.h, with its equivalent in tests/simt/simt.h",
       R"(\basm\b|wmma|\bcuda::|\bcg::|cooperative_groups)",
       {"kernels/device/ptx.h"}},
      {"tensor-core work is left to NVIDIA's libraries, except for attention over windows of a grid",
       R"(\bMultiplyTiles\b|\bw?mma\b)",
       {"kernels/device/ptx.h", "kernels/neighbourhood_tiles.cu"}},
      {"kernels do not test which compiler is used",
       R"(__CUDA_ARCH__|__CUDACC__|KINORA_SIMT)",
       {"kernels/device/device.h", "kernels/device/ptx.h"}},
      {"warp operations have a mask", R"(\b(__shfl(_up|_down|_xor)?|__ballot|__any|__all)\s*\()"},
      {"no device variables", R"(^\s*(static\s+)?(__device__|__constant__)\s+[\w:<>]+\s+\w+\s*(=|;|\[))"},
      {"no allocation and no printing", R"(\b(malloc|free|printf|new)\s*\()"},
  };
  return *rules;
}

bool IsKernel(const Source& source) { return source.path.starts_with("kernels/"); }

TEST(KernelRules, EveryKernelFollowsTheRules) {
  int kernels = 0;
  for (const Source& source : CppSources()) {
    if (!IsKernel(source)) continue;
    for (size_t i = 0; i < source.lines.size(); ++i) {
      const std::string code = source.lines[i].substr(0, source.lines[i].find("//"));
      kernels += code.find("__global__") != std::string::npos ? 1 : 0;
      for (const Rule& rule : Rules()) {
        if (!std::regex_search(code, std::regex(rule.violation))) continue;
        EXPECT_THAT(rule.where, testing::Contains(source.path)) << rule.what << ": " << source.path << ":" << i + 1;
      }
    }
  }
  EXPECT_GT(kernels, 0);
}

// g++ 12's __builtin_clear_padding clears wrong bytes of structs with arrays of structs, including addresses in them.
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

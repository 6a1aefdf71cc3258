#include "engine/base/cpu_path.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace kinora {
namespace {

// The path is chosen once per process, so a child process prints its choice and exits.
void SayPath(const char* most) {
  setenv("KINORA_MAX_CPU_PATH", most, 1);
  std::fprintf(stderr, "path %s\n", CpuPathName(ThisCpuPath()));
  std::exit(0);
}

TEST(CpuPath, IsNotWiderThanTheEnvironmentAllows) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(SayPath("sse2"), testing::ExitedWithCode(0), "path SSE2");
  EXPECT_EXIT(SayPath("avx2"), testing::ExitedWithCode(0), "path (AVX2|SSE2)");
  EXPECT_EXIT(SayPath("avx512_bf16"), testing::ExitedWithCode(0), "path (AVX-512 BF16|AVX2|SSE2)");
  EXPECT_EXIT(SayPath("amx_bf16"), testing::ExitedWithCode(0), "path (AMX BF16|AVX-512 BF16|AVX2|SSE2)");
  EXPECT_EXIT(SayPath(""), testing::ExitedWithCode(0), "path (AMX BF16|AVX-512 BF16|AVX2|SSE2)");
}

TEST(CpuPath, AnUnknownNameIsRefusedWithThoseThatWork) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(SayPath("neon"), testing::ExitedWithCode(2),
              "KINORA_MAX_CPU_PATH=neon: want sse2, avx2, avx512_bf16 or amx_bf16");
}

}  // namespace
}  // namespace kinora

#include "engine/ops/cuda/kernel_images.h"

#include <gtest/gtest.h>

namespace kinora {
namespace {

TEST(KernelImages, RunOnTheDevicesThatCudaSays) {
  const struct {
    const char* architectures;
    int major, minor;
    bool has;
  } cases[] = {
      {"86-real", 8, 0, false},
      {"86-real", 8, 6, true},
      {"86-real", 8, 9, true},
      {"86-real", 9, 0, false},
      {"90a-real", 9, 0, true},
      {"100a-real", 10, 3, false},
      {"100f-real", 10, 3, true},
      {"103f-real", 10, 0, false},
      {"100f-real", 11, 0, false},
      {"90-virtual", 8, 9, false},
      {"90-virtual", 9, 0, true},
      {"90-virtual", 12, 1, true},
      {"90a-virtual", 10, 0, false},
      {"100f-virtual", 12, 0, false},
      {"90", 12, 1, true},
      {"80-real,120a-real", 12, 1, false},
      {"80-real,121a-real", 12, 1, true},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(HasKernelsFor(each.major, each.minor, each.architectures), each.has)
        << each.architectures << " on " << each.major << "." << each.minor;
  }
}

TEST(KernelImages, CapabilitiesAreListedForPeople) {
  EXPECT_EQ(CapabilitiesWithKernels("80-real,89-real,90a-real,100f-real,120"),
            "8.0 to 8.9, 8.9, 9.0, 10.0 to 10.9, 12.0 and later");
}

}  // namespace
}  // namespace kinora

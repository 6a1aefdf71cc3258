// The generator against the standard library's, which has the same sequence.
#include "engine/diffusion/mersenne_twister.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kinora {
namespace {

constexpr uint32_t kSeeds[] = {0, 7, 5489, 0xffffffff};

TEST(MersenneTwister, HasTheStandardLibrarysSequence) {
  for (const uint32_t seed : kSeeds) {
    MersenneTwister ours(seed);
    std::mt19937 standard(seed);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(ours(), standard()) << seed << " " << i;
  }
}

// The sizes end within a state, at its end and past it.
TEST(MersenneTwister, MakesAndDiscardsAnyNumberOfValues) {
  for (const uint32_t seed : kSeeds) {
    MersenneTwister ours(seed);
    std::mt19937 standard(seed);
    for (const size_t count : {1, 623, 624, 625, 0, 16, 227, 3 * 624, 5000}) {
      std::vector<float> values(count);
      ours.Uniform24(absl::MakeSpan(values));
      for (const float value : values) ASSERT_EQ(value, static_cast<float>(standard() & 0xffffffu) * 0x1p-24f) << count;
      ours.Discard(count);
      standard.discard(count);
      ASSERT_EQ(ours(), standard()) << count;
    }
  }
}

}  // namespace
}  // namespace kinora

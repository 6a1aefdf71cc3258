// Ancestral Euler against Lightricks' loop, one step at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/diffusion/ancestral_sampler.h"
#include "tests/diffusion/sampler_golden.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

class Ancestral : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Ancestral, testing::ValuesIn(Backends()), BackendName);

TEST_P(Ancestral, EqualsTheReferenceAtEveryStep) {
  Golden golden("ancestral");
  const nlohmann::json parameters = nlohmann::json::parse(golden.metadata("parameters"));
  ModelRig rig(GetParam(), DType::kF32);
  ExpectSamplerEquals(rig, golden, SamplerKind::kAncestral, std::stoull(parameters["seed"].get<std::string>()));
}

// The noise factors of the distilled levels.
TEST(AncestralFactors, RestoreTheVarianceOfTheNextLevel) {
  const std::vector<AncestralFactors> factors =
      FactorsOfAncestral({1.0f, 0.99375f, 0.9875f, 0.98125f, 0.975f, 0.909375f, 0.725f, 0.421875f, 0.0f});
  std::vector<float> noise;
  for (const AncestralFactors& f : factors) noise.push_back(f.noise);
  const auto near = [](float value) { return FloatNear(value, 5e-5f); };
  EXPECT_THAT(noise, ElementsAre(near(0.8615f), near(0.7385f), near(0.6530f), near(0.5903f), near(0.7554f),
                                 near(0.6195f), near(0.3776f), 0.0f));
  EXPECT_EQ(factors.back().x0, 1.0f);
  EXPECT_EQ(factors.back().z, 0.0f);
}

TEST(AncestralNoise, GivenDrawsReplaceThoseOfTheGenerator) {
  const GivenStepNoise none, given{.draws = 2, .whole = {.grid = {1, 2, 3, 4}, .appended = {5, 6}}};
  AncestralNoise own(7), replaced(7);
  std::vector<float> drawn(3), mixed(3);
  for (const std::vector<float>& expected : {std::vector<float>{1, 2, 5}, {3, 4, 6}}) {
    own.Take(0, none, absl::MakeSpan(drawn))();
    replaced.Take(expected[0] == 1 ? 0 : 1, given, absl::MakeSpan(mixed))();
    EXPECT_EQ(mixed, expected);
    EXPECT_NE(drawn, expected);
  }
}

}  // namespace
}  // namespace kinora

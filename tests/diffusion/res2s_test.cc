// res_2s against Lightricks' loop, one evaluation at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/diffusion/res2s_sampler.h"
#include "tests/diffusion/sampler_golden.h"

namespace kinora {
namespace {

class Res2s : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Res2s, testing::ValuesIn(Backends()), BackendName);

TEST_P(Res2s, EqualsTheReferenceAtEveryEvaluation) {
  Golden golden("res2s");
  ModelRig rig(GetParam(), DType::kF32);
  ExpectSamplerEquals(rig, golden, SamplerKind::kRes2s, /*seed=*/0);
}

TEST(Res2sSchedule, LevelsAreThoseOfTheReference) {
  Golden golden("res2s");
  const std::vector<float> sigmas = ToFloats(golden.Get("in.sigmas"));
  const std::vector<float> levels = EvaluationLevels(SamplerKind::kRes2s, sigmas);
  EXPECT_EQ(levels.size(), 2 * sigmas.size() - 1);
  EXPECT_THAT(levels, testing::Pointwise(testing::FloatEq(), ToFloats(golden.Get("out.levels"))));
}

TEST(Res2sSchedule, HeldStepsAreThoseOfTheWholeSteps) {
  const int64_t evaluations = 7;  // of three steps
  std::vector<int64_t> steps;
  for (int64_t i = 0; i < evaluations; ++i) steps.push_back(HeldStep(SamplerKind::kRes2s, i, evaluations));
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 0, 1, 0, 2, 0, 3}));
}

}  // namespace
}  // namespace kinora

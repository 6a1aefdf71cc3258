// res_2s against Lightricks' loop, one evaluation at a time.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/diffusion/res2s_sampler.h"
#include "tests/testing/golden.h"
#include "tests/testing/model_rig.h"

namespace kinora {
namespace {

using Floats = std::vector<float>;

Floats ToFloats(const Tensor& t) { return Floats(t.data<float>(), t.data<float>() + t.elements()); }

class Res2s : public OpTest {
 protected:
  // Drops the batch dimension of 1.
  static Tensor Rows(const Tensor& golden) { return golden.Reshape({golden.dim(-2), golden.dim(-1)}); }
};
INSTANTIATE_TEST_SUITE_P(On, Res2s, testing::ValuesIn(Backends()), BackendName);

struct Modality {
  std::string name;
  std::unique_ptr<Sampler> sampler = MakeSampler(SamplerKind::kRes2s);
  LatentState state;
  Prediction prediction;
};

Modality Start(ModelRig& rig, Golden& golden, const std::string& name, const Floats& sigmas) {
  Modality m{.name = name};
  const Tensor &latent = golden.Get("in." + name + "_latent"), &clean = golden.Get("in." + name + "_clean");
  const int64_t tokens = latent.dim(-2), channels = latent.dim(-1);
  m.state = {.layout = {.grid = tokens, .padded = tokens},
             .z = rig.Upload(latent.Reshape({tokens, channels})),
             .clean = rig.Upload(clean.Reshape({tokens, channels})),
             .mask = ToFloats(golden.Get("in." + name + "_mask"))};
  const DistinctMask mask = Distinguish(m.state.mask);
  Floats table;
  for (const float value : mask.values) {
    for (const float slot : {value - 1, 0.0f, 1 - value}) table.insert(table.end(), channels, slot);
  }
  m.prediction.clean = m.state.clean;
  m.prediction.mask.table = rig.Upload(table, {static_cast<int64_t>(mask.values.size()), 3, channels});
  if (!mask.row.empty()) {
    m.prediction.mask.row = rig.Upload(Tensor(DType::kI32, {tokens}, const_cast<int32_t*>(mask.row.data())));
  }
  m.prediction.x0 = rig.Output(DType::kF32, {tokens, channels});
  m.sampler->Reserve(rig.exec, sigmas, m.state);
  return m;
}

TEST_P(Res2s, EqualsTheReferenceAtEveryEvaluation) {
  Golden golden("res2s");
  ModelRig rig(GetParam(), DType::kF32);
  const ArenaScope scope(rig.arena);
  const Floats sigmas = ToFloats(golden.Get("in.sigmas")), levels = EvaluationLevels(SamplerKind::kRes2s, sigmas);
  ASSERT_EQ(levels.size(), 2 * sigmas.size() - 1);
  const Tensor& expected = golden.Get("out.levels");
  ASSERT_EQ(expected.elements(), static_cast<int64_t>(levels.size()));
  Modality modalities[] = {Start(rig, golden, "video", sigmas), Start(rig, golden, "audio", sigmas)};
  const GivenStepNoise none;
  FillStepNoise(rig.exec, static_cast<int64_t>(levels.size()) - 1,
                {{modalities[0].sampler->noise(), &none}, {modalities[1].sampler->noise(), &none}});
  const Tensor turn = rig.Upload(Tensor(DType::kI32, {1}, std::vector<int32_t>{0}.data()));
  for (size_t i = 0; i < levels.size(); ++i) {
    EXPECT_FLOAT_EQ(levels[i], expected.data<float>()[i]);
    for (Modality& m : modalities) {
      const std::string at = "_" + std::to_string(i);
      EXPECT_TRUE(Near(rig.Download(m.state.z).tensor(), Rows(golden.Get("out." + m.name + "_z" + at)), 2e-6)) << at;
      rig.ops().stream().Copy(rig.Upload(Rows(golden.Get("out." + m.name + "_x0" + at))), m.prediction.x0);
      MixWithClean(rig.ops(), m.prediction, m.prediction.x0);
      m.sampler->SelectStep(rig.exec, turn);
      m.sampler->StepWithHeld(rig.exec, m.prediction, m.state.z);
    }
    rig.ops().Increment(turn);
  }
  for (Modality& m : modalities) {
    m.sampler->Finish(rig.exec, m.prediction, m.state.z);
    EXPECT_TRUE(Near(rig.Download(m.state.z).tensor(), Rows(golden.Get("out." + m.name)), 2e-6)) << m.name;
  }
}

TEST(Res2sSchedule, HeldStepsAreThoseOfTheWholeSteps) {
  const int64_t evaluations = 7;  // of three steps
  std::vector<int64_t> steps;
  for (int64_t i = 0; i < evaluations; ++i) steps.push_back(HeldStep(SamplerKind::kRes2s, i, evaluations));
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 0, 1, 0, 2, 0, 3}));
}

}  // namespace
}  // namespace kinora

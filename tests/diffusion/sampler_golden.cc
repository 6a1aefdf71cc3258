#include "tests/diffusion/sampler_golden.h"

#include <gtest/gtest.h>

namespace kinora {
namespace {

// Drops the batch dimension of 1.
Tensor Rows(const Tensor& golden) { return golden.Reshape({golden.dim(-2), golden.dim(-1)}); }

}  // namespace

std::vector<float> ToFloats(const Tensor& t) { return {t.data<float>(), t.data<float>() + t.elements()}; }

GoldenModality StartModality(ModelRig& rig, Golden& golden, const std::string& name, SamplerKind kind,
                             const std::vector<float>& sigmas) {
  GoldenModality m{.name = name, .sampler = MakeSampler(kind)};
  const Tensor latent = Rows(golden.Get("in." + name + "_latent")), clean = Rows(golden.Get("in." + name + "_clean"));
  const int64_t tokens = latent.dim(0), channels = latent.dim(1);
  m.state = {.layout = {.grid = tokens, .padded = tokens},
             .z = rig.Upload(latent),
             .clean = rig.Upload(clean),
             .mask = ToFloats(golden.Get("in." + name + "_mask"))};
  const DistinctMask mask = Distinguish(m.state.mask);
  std::vector<float> table;
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

void ExpectSamplerEquals(ModelRig& rig, Golden& golden, SamplerKind kind, uint64_t seed) {
  const ArenaScope scope(rig.arena);
  const std::vector<float> sigmas = ToFloats(golden.Get("in.sigmas"));
  const auto evaluations = static_cast<int64_t>(EvaluationLevels(kind, sigmas).size());
  GoldenModality modalities[] = {StartModality(rig, golden, "video", kind, sigmas),
                                 StartModality(rig, golden, "audio", kind, sigmas)};
  const GivenStepNoise none;
  const std::unique_ptr<StepNoise> noise = MakeStepNoise(kind, seed);
  FillStepNoise(rig.exec, *noise, evaluations - 1,
                {{modalities[0].sampler->noise(), &none}, {modalities[1].sampler->noise(), &none}});
  const Tensor turn = rig.Upload(Tensor(DType::kI32, {1}, std::vector<int32_t>{0}.data()));
  for (int64_t i = 0; i < evaluations; ++i) {
    for (GoldenModality& m : modalities) {
      const std::string at = "_" + std::to_string(i);
      EXPECT_TRUE(Near(rig.Download(m.state.z).tensor(), Rows(golden.Get("out." + m.name + "_z" + at)), 2e-6))
          << m.name << at;
      rig.ops().stream().Copy(rig.Upload(Rows(golden.Get("out." + m.name + "_x0" + at))), m.prediction.x0);
      MixWithClean(rig.ops(), m.prediction, m.prediction.x0);
      m.sampler->SelectStep(rig.exec, turn);
      m.sampler->StepWithHeld(rig.exec, m.prediction, m.state.z);
    }
    rig.ops().Increment(turn);
  }
  for (GoldenModality& m : modalities) {
    m.sampler->Finish(rig.exec, m.prediction, m.state.z);
    EXPECT_TRUE(Near(rig.Download(m.state.z).tensor(), Rows(golden.Get("out." + m.name)), 2e-6)) << m.name;
  }
}

}  // namespace kinora

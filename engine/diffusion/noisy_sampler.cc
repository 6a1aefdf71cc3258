#include "engine/diffusion/noisy_sampler.h"

namespace kinora {

void NoisySampler::ReserveTables(Exec& exec, SamplerKind kind, int64_t slots, absl::Span<const float> factors,
                                 const LatentState& state) {
  const auto evaluations = static_cast<int64_t>(factors.size()) / slots;
  const Tensor z = state.z.Rows(0, state.layout.tokens());
  const int64_t channels = z.width();
  factors_ = exec.arena.Alloc(DType::kF32, {RoomForSteps(evaluations), slots * channels});
  current_ = exec.arena.Alloc(DType::kF32, {1, slots, channels});
  std::vector<float> table;
  table.reserve(evaluations * slots * channels);
  for (const float factor : factors) table.insert(table.end(), channels, factor);
  exec.ops.stream().CopyFromHost(table.data(), factors_.Rows(0, evaluations));
  noise_ = exec.arena.Alloc(DType::kF32, z.shape());
  noises_ = exec.arena.Alloc(DType::kF32, {RoomForNoise(kind, evaluations), z.elements()});
  exec.ops.Fill(0.0f, noises_.Rows(evaluations - 1, evaluations));  // the last evaluation adds no noise
}

void NoisySampler::SelectStep(Exec& exec, const Tensor& step) const {
  exec.ops.GatherRows(factors_, step, 1.0f, current_.Reshape({1, current_.elements()}));
  exec.ops.GatherRows(noises_, step, 1.0f, noise_.Reshape({1, noise_.elements()}));
}

void NoisySampler::Step(Exec& exec, const Prediction& prediction, Tensor z) const {
  exec.ops.PredictX0(z, prediction.v, prediction.sigma, prediction.v);
  exec.ops.CombineGuidance(prediction.v, prediction.weights, prediction.cond, prediction.x0);
  MixWithClean(exec.ops, prediction, prediction.x0);
  StepWithHeld(exec, prediction, z);
}

void NoisySampler::Finish(Exec& exec, const Prediction& prediction, Tensor z) const {
  exec.ops.stream().Copy(prediction.x0, z);
}

}  // namespace kinora

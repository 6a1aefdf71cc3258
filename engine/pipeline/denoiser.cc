#include "engine/pipeline/denoiser.h"

#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/pipeline/step_gate.h"

namespace kinora {
namespace {

Tensor Upload(Exec& exec, DType dtype, const Shape& shape, const void* host) {
  Tensor t = exec.arena.Alloc(dtype, shape);
  exec.ops.stream().CopyFromHost(host, t);
  return t;
}

// Returns Prediction::mask: a table with one row per distinct mask value.
Modulation MaskTable(Exec& exec, const LatentState& state) {
  const DistinctMask mask = Distinguish(state.mask);
  const auto k = static_cast<int64_t>(mask.values.size()), channels = state.z.width();
  std::vector<float> table;
  for (const float m : mask.values) {
    for (const float slot : {m - 1, 0.0f, 1 - m}) table.insert(table.end(), channels, slot);
  }
  Modulation modulation{.table = Upload(exec, DType::kF32, {k, 3, channels}, table.data())};
  if (!mask.row.empty()) modulation.row = Upload(exec, DType::kI32, {state.layout.tokens()}, mask.row.data());
  return modulation;
}

// Tensors of one modality, shared by all steps of the loop. Empty if the modality is not denoised.
class ModalityLoop {
 public:
  void Reserve(Exec& exec, const LatentState& state, const GuidanceScales& guidance, const DenoiseSpec& spec) {
    const int64_t tokens = state.layout.tokens(), channels = state.z.defined() ? state.z.width() : 0;
    if (tokens == 0 || state.frozen) return;
    const auto passes = static_cast<int64_t>(spec.passes.size());
    predicted_.cond = CondIndex(spec.passes);
    z_ = state.z.Rows(0, tokens);  // the padding stays zero
    predicted_.v = exec.arena.Alloc(DType::kF32, {passes * tokens, channels});
    predicted_.x0 = exec.arena.Alloc(DType::kF32, {tokens, channels});
    predicted_.weights = Upload(exec, DType::kF32, {passes + 1}, WeightsFor(guidance, spec.passes).data());
    if (!state.mask.empty()) {
      predicted_.mask = MaskTable(exec, state);
      predicted_.clean = state.clean;
    }
    ReserveSigmas(exec, state.mask, EvaluationLevels(spec.sampler, spec.sigmas));
    sampler_ = MakeSampler(spec.sampler);
    sampler_->Reserve(exec, spec.sigmas, state);
  }

  // Adds the tensors that later steps read. skip: as DenoiseSpec::skip.
  void AddCarried(const char* modality, int skip, CarriedTensors& carried) const {
    if (!denoised()) return;
    carried.push_back({Cat(modality, ".z"), z_});
    if (skip > 0) carried.push_back({Cat(modality, ".x0"), predicted_.x0});
    for (const auto& [name, value] : sampler_->Carried()) carried.push_back({Cat(modality, ".", name), value});
  }

  bool denoised() const { return z_.defined(); }
  const Tensor& v() const { return predicted_.v; }
  const Tensor& x0() const { return predicted_.x0; }
  // Number of distinct mask values; 0: no mask.
  int64_t blended() const { return predicted_.clean.defined() ? predicted_.mask.table.dim(0) : 0; }

  void SelectStep(Exec& exec, const Tensor& step) const {
    if (!denoised()) return;
    exec.ops.GatherRows(sigmas_, step, 1.0f, predicted_.sigma.Reshape({1, predicted_.sigma.elements()}));
    sampler_->SelectStep(exec, step);
  }
  StepNoiseTable Noise(const GivenStepNoise& given) const {
    return {.rows = denoised() ? sampler_->noise() : Tensor(), .given = &given};
  }
  void Step(Exec& exec, ModalityUse use) const {
    if (!denoised()) return;
    if (use == ModalityUse::kUpdated) {
      sampler_->Step(exec, predicted_, z_);
    } else {
      sampler_->StepWithHeld(exec, predicted_, z_);
    }
  }
  void Finish(Exec& exec) const {
    if (denoised()) sampler_->Finish(exec, predicted_, z_);
  }

 private:
  // A token's noise level is mask·sigma.
  void ReserveSigmas(Exec& exec, const std::vector<float>& mask, const std::vector<float>& evaluated) {
    const auto steps = static_cast<int64_t>(evaluated.size());
    const int64_t each = mask.empty() ? 1 : static_cast<int64_t>(mask.size());
    std::vector<float> levels;
    for (const float sigma : evaluated) {
      for (int64_t j = 0; j < each; ++j) levels.push_back(mask.empty() ? sigma : mask[j] * sigma);
    }
    sigmas_ = exec.arena.Alloc(DType::kF32, {RoomForSteps(steps), each});
    predicted_.sigma = exec.arena.Alloc(DType::kF32, {each});
    exec.ops.stream().CopyFromHost(levels.data(), sigmas_.Rows(0, steps));
  }

  Tensor z_;
  Tensor sigmas_;         // [RoomForSteps, 1 or tokens]; predicted_.sigma is a copy of one row
  Prediction predicted_;  // the model's last prediction
  std::unique_ptr<Sampler> sampler_;
};

PerModality<ModalityLoop> ReserveLoop(Exec& exec, const DenoiseSpec& spec, const PerModality<LatentState>& state) {
  PerModality<ModalityLoop> loop;
  loop.video.Reserve(exec, state.video, spec.guidance.video, spec);
  loop.audio.Reserve(exec, state.audio, spec.guidance.audio, spec);
  const auto steps = static_cast<int64_t>(EvaluationLevels(spec.sampler, spec.sigmas).size());
  if (const std::unique_ptr<StepNoise> noise = MakeStepNoise(spec.sampler, spec.seed); noise != nullptr) {
    FillStepNoise(exec, *noise, steps - 1, {loop.video.Noise(spec.given.video), loop.audio.Noise(spec.given.audio)});
  }
  if (spec.x0 != nullptr) *spec.x0 = {loop.video.x0(), loop.audio.x0()};
  return loop;
}

CarriedTensors CarriedBy(const PerModality<ModalityLoop>& loop, const DenoiseSpec& spec) {
  CarriedTensors carried;
  loop.video.AddCarried("video", spec.skip.video, carried);
  loop.audio.AddCarried("audio", spec.skip.audio, carried);
  return carried;
}

// Addresses that a step reads and writes.
std::vector<const void*> Addresses(const PerModality<LatentState>& state, const PerModality<ModalityLoop>& loop,
                                   const Tensor& turn, const Arena& arena) {
  std::vector<const void*> addresses = {turn.raw(), arena.Top()};
  for (const LatentState& s : {state.video, state.audio}) addresses.insert(addresses.end(), {s.z.raw(), s.clean.raw()});
  for (const Tensor& v : {loop.video.v(), loop.audio.v()}) addresses.push_back(v.raw());
  return addresses;
}

// A frozen modality is computed whenever the other one is.
PerModality<ModalityUse> UseAt(const PerModality<LatentState>& state, const PerModality<int>& skip, int64_t step) {
  const auto predicted = [&](const LatentState& s, int k) {
    return s.layout.tokens() > 0 && !s.frozen && step % (k + 1) == 0;
  };
  const bool video = predicted(state.video, skip.video), audio = predicted(state.audio, skip.audio);
  const auto use = [](const LatentState& s, bool itself, bool other) {
    if (s.layout.tokens() == 0) return ModalityUse::kAbsent;
    return itself || (s.frozen && other) ? ModalityUse::kUpdated : ModalityUse::kHeld;
  };
  return {use(state.video, video, audio), use(state.audio, audio, video)};
}

// Leaves out `use`, which differs between steps.
StepShape ShapeOf(const VelocityModel& model, const DenoiseSpec& spec, const PerModality<LatentState>& state,
                  const PerModality<ModalityLoop>& loop) {
  const auto steps = static_cast<int64_t>(EvaluationLevels(spec.sampler, spec.sigmas).size());
  return {.model = model.shape(),
          .sampler = spec.sampler,
          .room_for_steps = RoomForSteps(steps),
          .room_for_noise = RoomForNoise(spec.sampler, steps),
          .blended = {loop.video.blended(), loop.audio.blended()},
          .frozen = {state.video.frozen, state.audio.frozen},
          .kept_ropes = model.kept_ropes()};
}

}  // namespace

absl::Status Denoise(Exec& exec, const VelocityModel& model, const DenoiseSpec& spec, StepGraphs& graphs,
                     const PerModality<LatentState>& state, absl::FunctionRef<absl::Status(int64_t step)> on_step) {
  ArenaScope scope(exec.arena);
  const auto steps = static_cast<int64_t>(EvaluationLevels(spec.sampler, spec.sigmas).size());
  const PerModality<ModalityLoop> loop = ReserveLoop(exec, spec, state);
  const ModalityLoop* const both[] = {&loop.video, &loop.audio};
  const CarriedTensors carried = CarriedBy(loop, spec);
  if (spec.done > 0) KINORA_RETURN_IF_ERROR(spec.restore(carried));
  const auto first = static_cast<int32_t>(spec.done);
  const Tensor turn = Upload(exec, DType::kI32, {1}, &first);  // step index, on the device
  const PerModality<Tensor> z{state.video.z, state.audio.z}, v{loop.video.v(), loop.audio.v()};
  const std::vector<const void*> addresses = Addresses(state, loop, turn, exec.arena);
  StepShape shape = ShapeOf(model, spec, state, loop);
  const std::function<void()> step = [&] {
    const bool video = shape.use.video == ModalityUse::kUpdated, audio = shape.use.audio == ModalityUse::kUpdated;
    model.SelectStep(exec, turn);
    for (const ModalityLoop* m : both) m->SelectStep(exec, turn);
    if (video || audio) model.Forward(exec, shape.use, z, v);
    loop.video.Step(exec, shape.use.video);
    loop.audio.Step(exec, shape.use.audio);
    exec.ops.Increment(turn);
  };
  const auto report = [&](int64_t i) { return on_step(spec.done + i); };
  StepGate gate(exec, report, /*ahead=*/true, "step", StepGate::Decision::kTravels);
  for (int64_t i = spec.done; i < steps; ++i) {
    {
      const EnqueueRange range(exec, "step", i + 1);  // without the gate, which may wait
      shape.use = UseAt(state, spec.skip, HeldStep(spec.sampler, i, steps));
      gate.Begin();
      exec.taps != nullptr ? step() : graphs.Run(exec.ops.stream(), shape, addresses, step);
      for (const ModalityLoop* m : both) {
        if (i + 1 == steps) m->Finish(exec);
      }
    }
    if (spec.keep) KINORA_RETURN_IF_ERROR(spec.keep(i, carried));
    KINORA_RETURN_IF_ERROR(gate.Pass(/*read=*/!spec.watched.empty() && spec.watched[i]));
  }
  return gate.Finish();
}

}  // namespace kinora

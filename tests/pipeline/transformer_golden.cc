#include "tests/pipeline/transformer_golden.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "nlohmann/json.hpp"
#include "tests/testing/allocations.h"

namespace kinora {
namespace {

using Floats = std::vector<float>;

// Converts [batch, axes, tokens, 2] start and end positions to [axes][tokens] midpoints.
std::vector<Floats> Middles(const Tensor& bounds) {
  std::vector<Floats> middles(bounds.dim(1));
  const float* p = bounds.data<float>();
  for (int64_t axis = 0; axis < bounds.dim(1); ++axis) {
    for (int64_t i = 0; i < bounds.dim(2); ++i, p += 2) middles[axis].push_back((p[0] + p[1]) / 2.0f);
  }
  return middles;
}

// Returns the logarithm of a mask in 0..1 as [tokens, tokens].
Tensor SelfBias(ModelRig& rig, const Tensor& mask) {
  HostTensor bias(DType::kF32, {mask.dim(1), mask.dim(2)});
  for (int64_t i = 0; i < mask.elements(); ++i) {
    const float m = mask.data<float>()[i];
    bias.f32()[i] = m > 0 ? std::log(m) : -std::numeric_limits<float>::max();
  }
  return rig.Upload(bias.tensor());
}

VelocityInputs Inputs(ModelRig& rig, const ForwardCase& c) {
  VelocityInputs inputs;
  ModalityInputs &video = inputs.of.video, &audio = inputs.of.audio;
  if (c.use.video != ModalityUse::kAbsent) video.positions = Middles(c.golden.Get("in.video_positions"));
  if (c.use.audio != ModalityUse::kAbsent) audio.positions = Middles(c.golden.Get("in.audio_positions"));
  inputs.passes = c.passes;
  inputs.share_blocks = c.share_blocks;
  video.perturbed_blocks = c.video_stg;
  audio.perturbed_blocks = c.audio_stg;
  const auto context = [&](int row) {
    const auto rows_of = [&](const char* name) {
      return rig.Upload(c.golden.Get(name).Rows(row, row + 1).As2D(), c.dtype);
    };
    return TextContext{rows_of("in.video_context"), rows_of("in.audio_context")};
  };
  inputs.uncond = context(c.context_rows[0]);
  inputs.cond = context(c.context_rows[1]);
  const float sigma = c.golden.Get("in.sigma").data<float>()[0];
  video.sigmas = {0.5f * sigma, sigma};  // the golden is the second step
  audio.sigmas = {0.25f, c.audio_sigma < 0 ? sigma : c.audio_sigma};
  audio.mask = c.audio_mask;
  video.marked_tokens = c.marked_tokens;
  if (c.marked_tokens < 0) {
    video.marked_tokens = nlohmann::json::parse(c.golden.metadata("parameters")).value("marked", int64_t{0});
  }
  if (c.golden.Has("in.video_mask")) {
    const Tensor& mask = c.golden.Get("in.video_mask");
    video.mask.assign(mask.data<float>(), mask.data<float>() + mask.elements());
  }
  if (c.golden.Has("in.video_attention_mask")) video.self_bias = SelfBias(rig, c.golden.Get("in.video_attention_mask"));
  return inputs;
}

// Overwrites inputs that the model may read only during preparation.
void Spoil(VelocityInputs& inputs) {
  for (ModalityInputs* of : {&inputs.of.video, &inputs.of.audio}) {
    for (auto& axis : of->positions) std::fill(axis.begin(), axis.end(), std::nanf(""));
    for (auto* host : {&of->mask, &of->sigmas}) std::fill(host->begin(), host->end(), std::nanf(""));
  }
}

void Select(Exec& exec, const VelocityModel& model, const Tensor& step, int32_t i) {
  exec.ops.stream().CopyFromHost(&i, step);
  model.SelectStep(exec, step);
}

// Runs the golden's step, eagerly or by replay. Returns the number of allocations during the replay.
absl::StatusOr<int64_t> Step(Exec& exec, const VelocityModel& model, const ForwardCase& c, const PerModality<Tensor>& z,
                             const PerModality<Tensor>& v) {
  const Tensor step = exec.arena.Alloc(DType::kI32, {1});
  if (!c.capture) {
    Select(exec, model, step, 1);
    model.Forward(exec, c.use, z, v);
    return 0;
  }
  // Captures the step, replays it for another noise level and other latents, then replays it for the golden's.
  KINORA_ASSIGN_OR_RETURN(auto graph, exec.ops.stream().Capture([&] { model.Forward(exec, c.use, z, v); }));
  exec.ops.Scale(z.video, 0.5f, z.video);
  exec.ops.Scale(z.audio, -2.0f, z.audio);
  Select(exec, model, step, 0);
  graph->Replay();
  exec.ops.Scale(z.video, 2.0f, z.video);
  exec.ops.Scale(z.audio, -0.5f, z.audio);
  const int64_t before = AllocationsOfThisThread();
  Select(exec, model, step, 1);
  graph->Replay();
  const int64_t allocations = AllocationsOfThisThread() - before;
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  return allocations;
}

}  // namespace

TransformerGolden::TransformerGolden(const Golden& golden, const std::string& checkpoint)
    : checkpoint_(*Checkpoint::Open({.paths = {checkpoint}})),
      config_(ParseLightricksConfig(golden.metadata("config"), golden.metadata("model_version"))->transformer) {}

absl::StatusOr<Velocity> TransformerGolden::Run(const Mesh& mesh, const ForwardCase& c) const {
  ModelRig rig(c.on, c.dtype, c.taps, &mesh, /*arena_bytes=*/64 << 20);
  Exec& exec = rig.exec;
  KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint_, mesh, rig.backend(), c.dtype));
  KINORA_ASSIGN_OR_RETURN(auto transformer, Transformer::Load(loader.Under("transformer"), config_));
  KINORA_RETURN_IF_ERROR(loader.Finish());
  VelocityInputs inputs = Inputs(rig, c);
  KINORA_ASSIGN_OR_RETURN(VelocityModel model, VelocityModel::Prepare(exec, *transformer, inputs));
  Spoil(inputs);

  const Tensor& video = c.golden.Get("in.video");
  const Tensor& audio = c.golden.Get("in.audio");
  const PerModality<int64_t> tokens = model.tokens();
  const PerModality<Tensor> z{rig.arena.Alloc(DType::kF32, {model.rows().video, video.width()}),
                              rig.arena.Alloc(DType::kF32, {model.rows().audio, audio.width()})};
  exec.ops.Fill(0.0f, z.video);
  if (tokens.video > 0) exec.ops.stream().CopyFromHost(video.raw(), z.video.Rows(0, tokens.video));
  if (tokens.audio > 0) exec.ops.stream().CopyFromHost(audio.raw(), z.audio);
  const PerModality<Tensor> v{rig.arena.Alloc(DType::kF32, {model.passes() * tokens.video, video.width()}),
                              rig.arena.Alloc(DType::kF32, {model.passes() * tokens.audio, audio.width()})};
  const CollectiveCounts tokens_before = mesh.tokens().counts(), tensor_before = mesh.tensor().counts();
  KINORA_ASSIGN_OR_RETURN(const int64_t allocations, Step(exec, model, c, z, v));
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  Velocity out{.video = rig.Floats(v.video),
               .audio = rig.Floats(v.audio),
               .tokens = mesh.tokens().counts(),
               .tensor = mesh.tensor().counts(),
               .allocations = allocations};
  for (int i = 0; i < kCollectives; ++i) {
    out.tokens[i].calls -= tokens_before[i].calls;
    out.tensor[i].calls -= tensor_before[i].calls;
  }
  return out;
}

Velocity TransformerGolden::Single(const ForwardCase& c) const {
  absl::StatusOr<Velocity> v = Run(*Mesh::Single(), c);
  EXPECT_TRUE(v.ok()) << v.status().ToString();
  return v.ok() ? *v : Velocity{};
}

}  // namespace kinora

#include "engine/pipeline/denoiser.h"

#include <array>

#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"

namespace kinora {
namespace {

// Tensors of the loop; every step uses the same ones.
struct LoopState {
  Tensor schedule;  // [steps, 2]: from, to
  Tensor sigmas;    // [2]: one of its rows
  Tensor v_video, v_audio, predicted_video, predicted_audio, x0_video, x0_audio;
};

LoopState Reserve(Exec& exec, const Stage& stage, const DenoiseSpec& spec, int64_t video_channels,
                  int64_t audio_channels) {
  const int64_t steps = static_cast<int64_t>(spec.sigmas.size()) - 1;
  const auto alloc = [&](int64_t rows, int64_t width) { return exec.arena.Alloc(DType::kF32, {rows, width}); };
  const int64_t video = stage.video_tokens(), audio = stage.audio_tokens(), passes = stage.passes();
  LoopState s;
  s.schedule = alloc(steps, 2);
  s.sigmas = alloc(1, 2);
  s.v_video = alloc(passes * video, video_channels);
  s.v_audio = alloc(passes * audio, audio_channels);
  s.predicted_video = alloc(passes * video, video_channels);
  s.predicted_audio = alloc(passes * audio, audio_channels);
  s.x0_video = alloc(video, video_channels);
  s.x0_audio = alloc(audio, audio_channels);
  std::vector<float> pairs;
  for (int64_t i = 0; i < steps; ++i) {
    pairs.push_back(spec.sigmas[i]);
    pairs.push_back(spec.sigmas[i + 1]);
  }
  exec.ops.stream().CopyFromHost(pairs.data(), s.schedule);
  return s;
}

// What a step computes anew.
Updates UpdatesAt(const DenoiseSpec& spec, int64_t step) {
  return {.video = step % (spec.video_skip + 1) == 0, .audio = step % (spec.audio_skip + 1) == 0};
}

void Step(Exec& exec, const Stage& stage, const DenoiseSpec& spec, Updates updates, const LoopState& s,
          const Tensor& z_video, const Tensor& z_audio) {
  const Tensor video = z_video.Rows(0, stage.video_tokens());  // the padding stays zero
  const Tensor sigmas = s.sigmas.Reshape({2}), sigma = sigmas.Rows(0, 1);
  if (updates.video || updates.audio) stage.Forward(exec, updates, z_video, z_audio, s.v_video, s.v_audio);
  if (updates.video) {
    exec.ops.PredictX0(video, s.v_video, sigma, s.predicted_video);
    exec.ops.CombineGuidance(s.predicted_video, spec.video_weights, s.x0_video);
  }
  if (updates.audio) {
    exec.ops.PredictX0(z_audio, s.v_audio, sigma, s.predicted_audio);
    exec.ops.CombineGuidance(s.predicted_audio, spec.audio_weights, s.x0_audio);
  }
  exec.ops.EulerStep(s.x0_video, sigmas, video);
  exec.ops.EulerStep(s.x0_audio, sigmas, z_audio);
}

}  // namespace

absl::Status Denoise(Exec& exec, const Stage& stage, const DenoiseSpec& spec, Tensor z_video, Tensor z_audio,
                     absl::FunctionRef<absl::Status(int64_t step)> on_step) {
  ArenaScope loop(exec.arena);
  Stream& stream = exec.ops.stream();
  const int64_t steps = static_cast<int64_t>(spec.sigmas.size()) - 1;
  const LoopState state = Reserve(exec, stage, spec, z_video.width(), z_audio.width());
  std::array<std::unique_ptr<Graph>, 4> graphs;  // one for each combination of updates that occurs
  for (int64_t i = 0; i < steps; ++i) {
    stage.SetStep(exec, i);
    stream.Copy(state.schedule.Rows(i, i + 1), state.sigmas);
    const Updates updates = UpdatesAt(spec, i);
    const auto step = [&] { Step(exec, stage, spec, updates, state, z_video, z_audio); };
    if (exec.taps != nullptr) {
      step();
    } else {
      std::unique_ptr<Graph>& graph = graphs[updates.video + 2 * updates.audio];
      if (graph == nullptr) {
        KINORA_ASSIGN_OR_RETURN(graph, stream.Capture(step));
      }
      graph->Replay();
    }
    KINORA_RETURN_IF_ERROR(stream.Synchronize());
    KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&] { return on_step(i); }));
  }
  return absl::OkStatus();
}

}  // namespace kinora

// One stage of denoising on this rank: everything the transformer reads that stays the same from step to step, and a
// forward pass from whole latents to whole velocities, sharing out tokens and guidance passes over the mesh.
#ifndef KINORA_ENGINE_PIPELINE_STAGE_H_
#define KINORA_ENGINE_PIPELINE_STAGE_H_

#include <vector>

#include "engine/diffusion/guidance.h"
#include "engine/model/transformer.h"

namespace kinora {

// The two contexts of one prompt, as the text encoder gives them: [rows, width] in exec.dtype.
struct PromptContext {
  Tensor video, audio;
};

struct StageSpec {
  // Middles of the tokens' intervals: [3][video tokens] (seconds, pixels down, pixels across), [1][audio tokens]
  // (seconds).
  std::vector<std::vector<float>> video_positions, audio_positions;
  PassList passes = {Pass::kCond};
  std::vector<int> perturbed_video_blocks, perturbed_audio_blocks;
  PromptContext cond, uncond;       // uncond: read if passes has kUncond
  std::vector<float> video_mask;    // [video tokens]: a token's timestep as a part of sigma; empty: 1
  std::vector<float> audio_mask;    // the same for audio
  Tensor video_self_bias;           // [video tokens, video tokens] f32 or undefined
  std::vector<float> video_sigmas;  // a step each: the modality's noise level
  std::vector<float> audio_sigmas;  // the same for audio
};

class Stage {
 public:
  // Allocates from exec.arena; the stage is valid until the caller's scope there ends. exec must outlive it and `spec`
  // need not. Contexts are read now. FailedPrecondition if the mesh cannot share the tokens out.
  static absl::StatusOr<Stage> Prepare(Exec& exec, const Transformer& transformer, const StageSpec& spec);

  int64_t video_rows() const { return padded_tokens_; }  // of z_video: the tokens, padded to whole key chunks
  int64_t video_tokens() const { return video_.tokens; }
  int64_t audio_tokens() const { return audio_.tokens; }
  int passes() const { return passes_; }

  // The tables of step i become those that Forward reads. Not part of a captured step.
  void SetStep(Exec& exec, int64_t i) const;
  // z_video: [video_rows, channels] f32, zeros past the tokens; z_audio: [audio tokens, channels] f32; equal on every
  // rank v_video: [passes·video tokens, channels] f32; v_audio: [passes·audio tokens, channels] f32; equal on every
  // rank; one that is not to be updated is not written
  void Forward(Exec& exec, Updates updates, const Tensor& z_video, const Tensor& z_audio, Tensor v_video,
               Tensor v_audio) const;

 private:
  explicit Stage(const Transformer& transformer) : transformer_(&transformer) {}
  void AssignPasses(const Exec& exec, const StageSpec& spec);
  void PrepareTokens(Exec& exec, const StageSpec& spec);
  void PrepareContexts(Exec& exec, const StageSpec& spec);
  void PrepareTables(Exec& exec, const StageSpec& spec);
  void GatherVideo(Exec& exec, const Tensor& local, Tensor whole) const;
  void GatherAudio(Exec& exec, const Tensor& local, Tensor whole) const;

  const Transformer* transformer_;
  Passes local_;  // this rank's
  PassList local_list_;
  int passes_ = 0;  // of all ranks
  int64_t padded_tokens_ = 0;
  StreamInputs video_, audio_;
  Tensor tables_;   // [steps, floats]
  Tensor current_;  // [floats]: one of its rows
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STAGE_H_

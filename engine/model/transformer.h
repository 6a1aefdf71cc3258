// The audio-video diffusion transformer: latents, prompt and noise level in, velocity (noise − clean) out
// (docs/model.md "Transformer"; ltx_core/model/transformer/model.py LTXModel). What depends on the noise level only, or
// on the prompt only, is computed before the loop.
#ifndef KINORA_ENGINE_MODEL_TRANSFORMER_H_
#define KINORA_ENGINE_MODEL_TRANSFORMER_H_

#include <memory>
#include <vector>

#include "engine/model/adaln.h"
#include "engine/model/av_block.h"
#include "engine/model/config.h"

namespace kinora {

// Noise levels of one step, in [0, 1]. tokens: one a distinct timestep of the modality's tokens (sigma · mask); scalar:
// the modality's own, which modulates the prompt and gates the other modality (Lightricks' reading: docs/model.md
// "Modulation"). No tokens: the modality is absent, in every step.
struct ModalitySigmas {
  std::vector<float> tokens;
  float scalar = 0;
};
using StepSigmas = PerModality<ModalitySigmas>;

class Transformer {
 public:
  // `weights` is at the transformer's root. Refuses a RoPE layout other than split, by name. kSound: no weight of the
  // video stream and none between the streams is held; Forward is then given no video.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(const WeightLoader& weights, const TransformerConfig& config,
                                                           Streams streams = Streams::kBoth);

  const TransformerConfig& config() const { return config_; }

  // Floats of one step's tables, for k distinct timesteps of each modality; 0: it is absent.
  int64_t TableFloats(const PerModality<int64_t>& k) const;
  // All steps of a stage at once. tables: [steps, TableFloats] f32.
  void FillTables(Exec& exec, const std::vector<StepSigmas>& steps, Tensor tables) const;
  // Views into one row of such tables [TableFloats]; copy a step's row there before Forward.
  PerModality<StepTables> TablesIn(const Tensor& row, const PerModality<int64_t>& k) const;

  // True if the prompt passes through caption_projection and its keys and values are the same in every step (2.0).
  bool prompt_is_constant() const { return !config_.cross_attention_adaln; }
  // Contexts as the blocks read them, of the modalities whose `to` is defined. from: [contexts·rows, caption or context
  // width]; to: [contexts·rows, context_width].
  void ProjectContexts(Exec& exec, const PerModality<Tensor>& from, const PerModality<Tensor>& to) const;
  // Reserves and fills in.prompt_cache of both streams from their contexts; the memory lives as long as the arena's
  // current scope.
  void FillPromptCaches(Exec& exec, PerModality<StreamInputs>& in) const;

  // latent: [rows, in_channels] f32 or exec.dtype: this rank's tokens, the same for every pass
  // velocity: [passes·rows, out_channels] f32; not written for a stream that is not updated, undefined of one whose
  // velocity nobody wants
  void Forward(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use,
               const PerModality<StreamInputs>& in, const PerModality<Tensor>& latent,
               const PerModality<Tensor>& velocity) const;

 private:
  struct Projection {  // caption_projection: Linear → tanh-GELU → Linear
    Weight in, out;
  };
  struct Modality {
    Weight patchify, output;
    Parameter output_table;  // [2, width]: shift, scale
    AdaLn adaln, cross, cross_gate;
    std::unique_ptr<AdaLn> prompt;  // 2.3
    Projection caption;             // 2.0
  };
  struct Offsets;  // where each table lies in a row

  explicit Transformer(const TransformerConfig& config) : config_(config) {}
  static absl::StatusOr<Modality> LoadModality(WeightLoader weights, const TransformerConfig& config,
                                               const ModalityConfig& modality, bool audio, Streams streams);
  Offsets OffsetsOf(const ModalityConfig& modality, int64_t k, int64_t begin) const;
  StepTables TablesAt(const Tensor& row, const ModalityConfig& modality, int64_t k, int64_t begin) const;
  // times: [steps·k]: the modulation of the blocks, and the embedding for the output head.
  void FillBlockTables(Exec& exec, const Modality& layers, const Tensor& times, const Offsets& o,
                       const Tensor& tables) const;
  void FillModality(Exec& exec, const Modality& layers, const ModalityConfig& modality,
                    const std::vector<const ModalitySigmas*>& own, const std::vector<const ModalitySigmas*>& other,
                    int64_t begin, Tensor tables) const;
  void Enter(Exec& exec, const Modality& layers, const Passes& passes, const Tensor& latent, Tensor x) const;
  void Leave(Exec& exec, const Modality& layers, const AvStream& stream, Tensor velocity) const;

  const TransformerConfig config_;
  Modality video_, audio_;
  std::vector<AvBlock> blocks_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_TRANSFORMER_H_

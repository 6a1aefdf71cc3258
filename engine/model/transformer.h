// The audio-video diffusion transformer: latents, prompt and noise level in, velocity (noise − clean) out
// (docs/model.md "Transformer"; ltx_core/model/transformer/model.py LTXModel). Values that depend only on the noise
// level or only on the prompt are computed before the denoising loop.
#ifndef KINORA_ENGINE_MODEL_TRANSFORMER_H_
#define KINORA_ENGINE_MODEL_TRANSFORMER_H_

#include <memory>
#include <vector>

#include "engine/config/model_config.h"
#include "engine/model/adaln.h"
#include "engine/model/av_block.h"

namespace kinora {

// Noise levels of one modality in one step, in [0, 1].
struct ModalitySigmas {
  std::vector<float> tokens;  // distinct levels of its tokens (sigma · mask); empty in every step: it is absent
  // sigma itself, which modulates the prompt and gates the other modality (as in Lightricks: docs/model.md
  // "Modulation").
  float scalar = 0;
};
using StepSigmas = PerModality<ModalitySigmas>;

class Transformer {
 public:
  // weights: at the transformer's root. modalities: kSound loads no video or cross-modal weights; video must then be
  // absent in Forward. Fails with Unimplemented, naming the field, if the RoPE layout is not split.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(const WeightLoader& weights, const TransformerConfig& config,
                                                           Modalities modalities = Modalities::kBoth);

  const TransformerConfig& config() const { return config_; }

  // Number of floats in the tables of one step. k: distinct noise levels per modality; 0: the modality is absent.
  int64_t TableFloats(const PerModality<int64_t>& k) const;
  // Computes the tables of all steps of a stage. tables: [steps, TableFloats] f32.
  void FillTables(Exec& exec, const std::vector<StepSigmas>& steps, Tensor tables) const;
  // Returns views into `row` [TableFloats]. Copy a step's row of `tables` there before Forward.
  PerModality<StepTables> TablesIn(const Tensor& row, const PerModality<int64_t>& k) const;

  // True if the prompt passes through caption_projection and its keys and values are the same in every step (2.0).
  bool prompt_is_constant() const { return !config_.cross_attention_adaln; }
  // Computes the contexts that the blocks read, for modalities whose `to` is defined. from: [contexts·rows, caption or
  // context width]; to: [contexts·rows, context_width].
  void ProjectContexts(Exec& exec, const PerModality<Tensor>& from, const PerModality<Tensor>& to) const;
  // Allocates and fills in.prompt_cache of both modalities from their contexts. Valid until the current scope of
  // exec.arena ends.
  void FillPromptCaches(Exec& exec, PerModality<BlockInputs>& in) const;

  // Computes the blocks before the first perturbed one once for the STG pass and the conditional pass (Passes::cond).
  // latent: [rows, in_channels] f32 or exec.dtype: this rank's tokens, the same for every pass
  // velocity: [passes·rows, out_channels] f32; not written for a modality that is not updated; undefined: not wanted
  void Forward(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use,
               const PerModality<BlockInputs>& in, const PerModality<Tensor>& latent,
               const PerModality<Tensor>& velocity) const;

 private:
  struct Projection {  // caption_projection: Linear → tanh-GELU → Linear
    Weight in, out;
  };
  struct Marker {  // keyframes_abs_pos_embedding, which is added to the tokens of a clip's first latent frame
    Parameter embedding, ones;  // [1, width]
  };
  struct Modality {
    Weight patchify, output;
    Parameter output_table;  // [2, width]: shift, scale
    AdaLn adaln, cross, cross_gate;
    std::unique_ptr<AdaLn> prompt;  // 2.3
    Projection caption;             // 2.0
    Marker marker;                  // 2.5, video only
  };
  struct Offsets;  // of each table in a row

  explicit Transformer(const TransformerConfig& config) : config_(config) {}
  static absl::StatusOr<Modality> LoadModality(WeightLoader weights, const TransformerConfig& config,
                                               const ModalityConfig& modality, bool audio, Modalities modalities);
  static absl::StatusOr<Projection> LoadProjection(const WeightLoader& weights, int64_t in, int64_t out);
  static absl::StatusOr<Marker> LoadMarker(WeightLoader weights, int64_t width);
  Offsets OffsetsOf(const ModalityConfig& modality, int64_t k, int64_t begin) const;
  StepTables TablesAt(const Tensor& row, const ModalityConfig& modality, int64_t k, int64_t begin) const;
  // Fills the tables of the blocks and of the output head. times: [steps·k].
  void FillBlockTables(Exec& exec, const Modality& layers, const Tensor& times, const Offsets& o,
                       const Tensor& tables) const;
  void FillModality(Exec& exec, const Modality& layers, const ModalityConfig& modality,
                    const std::vector<const ModalitySigmas*>& own, const std::vector<const ModalitySigmas*>& other,
                    int64_t begin, Tensor tables) const;
  void Enter(Exec& exec, const Modality& layers, const Passes& passes, const BlockInputs& in, const Tensor& latent,
             Tensor x) const;
  struct BlockRange;
  // whole: all passes of this rank, which taps show, also where the range runs without the STG pass.
  void RunBlocks(Exec& exec, const BlockRange& range, const Passes& whole, const PerModality<ModalityUse>& use,
                 const ModalityState& video, const ModalityState& audio) const;
  void Leave(Exec& exec, const Modality& layers, const ModalityState& state, Tensor velocity) const;

  const TransformerConfig config_;
  Modality video_, audio_;
  std::vector<AvBlock> blocks_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_TRANSFORMER_H_

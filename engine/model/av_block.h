// One block of the transformer. Video and audio attend to themselves, to the prompt and to each other
// (docs/model.md "Block"; ltx_core/model/transformer/transformer.py BasicAVTransformerBlock).
#ifndef KINORA_ENGINE_MODEL_AV_BLOCK_H_
#define KINORA_ENGINE_MODEL_AV_BLOCK_H_

#include <array>
#include <vector>

#include "engine/base/per_modality.h"
#include "engine/config/model_config.h"
#include "engine/model/attention.h"
#include "engine/model/feed_forward.h"

namespace kinora {

// The guidance passes on this rank: a contiguous part of [uncond, cond, STG, isolated], stacked in the rows of both
// modalities.
struct Passes {
  int count = 1;
  int contexts = 1;                                // prompts stacked in the contexts' rows
  std::array<int8_t, kMaxBatch> context{};         // index of the prompt that each pass reads
  int perturbed = -1;                              // index of the STG pass; -1: not on this rank
  PerModality<std::vector<int>> perturbed_blocks;  // blocks whose self-attention returns its values in the STG pass
  int isolated = -1;  // passes from this index on have no cross-modal attention; -1: all have it
  // Index of the conditional pass, with which the STG pass shares the blocks before the first perturbed one, because it
  // equals it there; -1: not on this rank, or they share none.
  int cond = -1;
  const char* shared_names = nullptr;  // names of the passes other than the STG pass, for traces (TraceText)
};

// Role of a modality in a forward pass.
enum class ModalityUse : uint8_t {
  kUpdated,  // is computed
  kHeld,     // passes through the blocks unchanged, but provides keys and values to the other modality
             // (Guidance.skip_step; ltx_core Modality.enabled)
  kAbsent,   // does not exist; no cross-modal attention
};

// Modulation tables of one modality in one step, float32. k: distinct noise levels of its tokens.
struct StepTables {
  Tensor block;       // [k, 9 or 6, width]
  Tensor prompt;      // [1, 2, width]; undefined without prompt AdaLN
  Tensor cross;       // [k, 4, width]
  Tensor cross_gate;  // [1, 1, width]
  Tensor output;      // [k, 2, width], for the output head
};

// Prompt keys and values that do not depend on the noise level, [contexts·rows, inner] each.
struct PromptCache {
  Tensor keys, values;
};

// Inputs of one modality besides its activations. Constant during a stage, except for the tables' contents.
struct BlockInputs {
  int64_t rows = 0;         // per pass on this rank
  int64_t valid_rows = 0;   // rows that hold tokens of the clip; the others are padding
  int64_t tokens = 0;       // of the whole clip
  int64_t marked_rows = 0;  // rows at the beginning that get the keyframe marker
  bool split = false;       // the token group's ranks each hold a part of the tokens; one rank holds all
  Tensor row;               // [rows] i32: table row of each token; undefined: all 0
  Rope rope, cross_rope;    // this rank's rows and heads
  Tensor context;           // [contexts·prompt rows, context width]
  Tensor self_bias;         // [tokens, tokens] f32 or undefined
  StepTables tables;
  std::vector<PromptCache> prompt_cache;  // one per block; empty: blocks compute keys and values
};

// Activations of a modality. Each part of a block also computes the norm that the next part reads, so that one op can
// do both.
struct ModalityState {
  const BlockInputs& in;
  Tensor x;       // [passes·rows, width], updated in place
  Tensor normed;  // the same shape; undefined unless the modality is updated
};

class AvBlock {
 public:
  // index: compared with Passes::perturbed_blocks. weights: at transformer_blocks.<index>.
  static absl::StatusOr<AvBlock> Load(const WeightLoader& weights, const TransformerConfig& config, int index,
                                      Modalities modalities = Modalities::kBoth);

  // Computes `normed` for the first block's Forward, in modalities where it is defined.
  void Enter(Exec& exec, const ModalityState& video, const ModalityState& audio) const;
  // next: the block that will read `normed`; null: no block.
  void Forward(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use, const AvBlock* next,
               const ModalityState& video, const ModalityState& audio) const;
  // Computes the prompt's keys and values from in.context and appends them to in.prompt_cache, for models that do not
  // modulate the prompt. Allocates from exec.arena.
  void FillPromptCaches(Exec& exec, PerModality<BlockInputs>& in) const;

 private:
  struct Layers {  // weights of one modality
    Attention self, prompt;
    FeedForward ff;
    Parameter table;         // [9 or 6, width]
    Parameter prompt_table;  // [2, width], 2.3 only
    Parameter cross_table;   // [5, width]: scale, shift (audio to video), scale, shift (video to audio), gate
  };

  static absl::StatusOr<Layers> LoadLayers(WeightLoader weights, const TransformerConfig& config,
                                           const ModalityConfig& modality, const std::string& prefix,
                                           std::string_view cross_table);
  static PromptCache ProjectPrompt(Exec& exec, const Layers& layers, const BlockInputs& in, ArenaScope& temp);
  // The parts of a block. Each reads state.normed, adds to state.x, and computes the next part's norms.
  void AttendSelf(Exec& exec, const Layers& layers, const Passes& passes, bool perturbed,
                  const ModalityState& state) const;
  void AttendPrompt(Exec& exec, const Layers& layers, const Passes& passes, const NormedOutputs& next,
                    const ModalityState& state) const;
  // Prompt attention, then cross-modal attention.
  void AttendContexts(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use, const ModalityState& video,
                      const ModalityState& audio) const;
  // One direction of cross-modal attention.
  struct Cross {
    const Attention& attention;
    const Layers& layers;  // of the modality that is updated
    const Tensor& from;    // norm of the other modality, which provides keys and values
    const ModalityState& source;
    bool in_chunks;  // the keys are divided among ranks
  };
  // passes: the first so many passes attend.
  void AttendOther(Exec& exec, int passes, const Cross& cross, const ModalityState& state) const;
  void FeedForwardPart(Exec& exec, const Layers& layers, const NormedOutputs& next, const ModalityState& state) const;

  Layers video_, audio_;
  Attention audio_to_video_, video_to_audio_;
  int index_ = 0;
  float eps_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AV_BLOCK_H_

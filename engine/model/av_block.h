// One of the transformer's blocks: two streams, video and audio, that attend to themselves, to the prompt and to each
// other (docs/model.md "Block"; ltx_core/model/transformer/transformer.py BasicAVTransformerBlock).
#ifndef KINORA_ENGINE_MODEL_AV_BLOCK_H_
#define KINORA_ENGINE_MODEL_AV_BLOCK_H_

#include <array>
#include <vector>

#include "engine/base/per_modality.h"
#include "engine/model/attention.h"
#include "engine/model/config.h"
#include "engine/model/feed_forward.h"

namespace kinora {

// The guidance passes stacked in the rows of both streams, in the order [uncond, cond, STG, modality], of which a rank
// may hold a contiguous part.
struct Passes {
  int count = 1;
  int contexts = 1;                                // prompts stacked in the contexts' rows
  std::array<int8_t, kMaxBatch> context{};         // which of them each pass reads
  int perturbed = -1;                              // the STG pass; -1: not here
  PerModality<std::vector<int>> perturbed_blocks;  // whose self-attention it replaces by the values
  int isolated = -1;  // passes from this one on do not attend across the modalities; -1: all do
};

// What a forward pass does with a stream.
enum class ModalityUse : uint8_t {
  kUpdated,  // computes it
  kHeld,     // it goes through the blocks as it entered, still giving keys and values to the other (Guidance.skip_step;
             // ltx_core Modality.enabled)
  kAbsent,   // there is none, and no attention across
};

// One step's modulation tables of one modality (float32); k rows, one a distinct timestep of its tokens.
struct StepTables {
  Tensor block;       // [k, 9 or 6, width]
  Tensor prompt;      // [1, 2, width]; undefined without prompt AdaLN
  Tensor cross;       // [k, 4, width]
  Tensor cross_gate;  // [1, 1, width]
  Tensor output;      // [k, 2, width], for the output head
};

// Prompt keys and values that do not depend on the noise level, [contexts·rows, inner] each; undefined: computed in the
// block.
struct PromptCache {
  Tensor keys, values;
};

// What one modality's stream needs besides its activations; fixed for a stage, but for the tables' contents.
struct StreamInputs {
  int64_t rows = 0;        // a pass's on this rank
  int64_t valid_rows = 0;  // of those, the ones that exist: rows past the end of the clip are padding
  int64_t tokens = 0;      // of the whole clip
  bool split = false;      // the rows are a part of the clip's tokens
  Tensor row;              // [rows] i32: the table row of each token; undefined: 0
  Rope rope, cross_rope;   // this rank's rows and heads
  Tensor context;          // [contexts·prompt rows, context width]
  Tensor self_bias;        // [tokens, tokens] f32 or undefined
  StepTables tables;
  std::vector<PromptCache> prompt_cache;  // a block each, or empty
};

// A modality's activations. Each part of a block leaves the norm that the next part reads, so that the end of one and
// the start of the next are one op.
struct AvStream {
  const StreamInputs& in;
  Tensor x;       // [passes·rows, width], updated in place
  Tensor normed;  // the same shape; undefined unless the stream is updated
};

class AvBlock {
 public:
  // `index` tells which STG blocks this is; `weights` is at transformer_blocks.<index>.
  static absl::StatusOr<AvBlock> Load(const WeightLoader& weights, const TransformerConfig& config, int index,
                                      Streams streams = Streams::kBoth);

  // Fills `normed` of the streams that have one, as Forward reads it.
  void Enter(Exec& exec, const AvStream& video, const AvStream& audio) const;
  // next: the block that reads `normed` afterwards; null: none does.
  void Forward(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use, const AvBlock* next,
               const AvStream& video, const AvStream& audio) const;
  // Keys and values of the prompt for a model that does not modulate it: reserved, filled from `context`
  // [contexts·rows, …] and appended to in.prompt_cache.
  void FillPromptCaches(Exec& exec, PerModality<StreamInputs>& in) const;

 private:
  struct Layers {  // of one modality
    Attention self, prompt;
    FeedForward ff;
    Parameter table;         // [9 or 6, width]
    Parameter prompt_table;  // [2, width], 2.3 only
    Parameter cross_table;   // [5, width]: scale, shift (audio to video), scale, shift (video to audio), gate
  };

  static absl::StatusOr<Layers> LoadLayers(WeightLoader weights, const TransformerConfig& config,
                                           const ModalityConfig& modality, const std::string& prefix,
                                           std::string_view cross_table);
  static PromptCache ProjectPrompt(Exec& exec, const Layers& layers, const StreamInputs& in, ArenaScope& temp);
  // The parts. Each reads stream.normed, adds to stream.x, and leaves the norms that come next.
  void AttendSelf(Exec& exec, const Layers& layers, const Passes& passes, bool perturbed, const AvStream& stream) const;
  void AttendPrompt(Exec& exec, const Layers& layers, const Passes& passes, const NormedOutputs& next,
                    const AvStream& stream) const;
  // To the prompt, then to each other.
  void AttendContexts(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use, const AvStream& video,
                      const AvStream& audio) const;
  // Keys and values of one stream for the queries of the other, of the first `passes` passes.
  struct Cross {
    const Attention& attention;
    const Layers& layers;  // of the stream that is written
    const Tensor& from;    // the other's norm
    const AvStream& source;
    bool in_chunks;  // the keys are shared out among ranks
  };
  void AttendOther(Exec& exec, int passes, const Cross& cross, const AvStream& stream) const;
  void FeedForwardPart(Exec& exec, const Layers& layers, const NormedOutputs& next, const AvStream& stream) const;

  Layers video_, audio_;
  Attention audio_to_video_, video_to_audio_;
  int index_ = 0;
  float eps_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AV_BLOCK_H_

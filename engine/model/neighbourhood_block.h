// A transformer block whose tokens attend to a window around them: NABlock and DiffusionNABlock of
// ltx_core/model/video_vae/transformer/blocks.py. x: [frames, height, width, channels].
//
//   x += context_proj(context)                                             (denoiser's blocks)
//   x += proj(attention(q, k, v)), from n = norm1(x):  q = rope(norm(W_q n)), k = rope(norm(W_k n)), v = W_v n
//   x += w_down(SiLU(w_gate n) ⊙ w_up n),  n = norm2(x)
//
// The denoiser's blocks scale and shift n by their timestep. The logits have the scale 1/√d. Windows shift inward at
// borders (NeighbourhoodOptions).
//
// A block works through x in slabs of time, so that queries, keys and values need memory for a slab and a window of
// frames, not for the clip. A frame's keys come from x before the block changes it. Results do not depend on slabs of
// whole multiples of kNeighbourhoodFrames.
#ifndef KINORA_ENGINE_MODEL_NEIGHBOURHOOD_BLOCK_H_
#define KINORA_ENGINE_MODEL_NEIGHBOURHOOD_BLOCK_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/config/diffusion_decoder_config.h"
#include "engine/model/axial_rope.h"
#include "engine/model/decoder_border.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class NeighbourhoodBlock {
 public:
  static constexpr int kTimestepSlots = 7;
  static constexpr int64_t kSlabElements = int64_t{1} << 28;  // of x in a slab, which has at least one frame
  struct Options {
    int64_t width = 0, head_width = 0;
    DiffusionDecoderConfig::Extents window{};
    int64_t context_width = 0;  // 0: a block without context and timestep
  };
  // Reads norm1, attn, norm2 and mlp under `weights`, with a context also context_proj and scale_shift_table. Gates
  // (gate_msa, gate_mlp, gate_ctx [width]) multiply what is added to x, if the file has them.
  static absl::StatusOr<NeighbourhoodBlock> Load(WeightLoader weights, const Options& options);

  // Norm weights, scales and shifts of a run as tables of modulation, in slots: scale and shift of norm1, of norm2.
  // Makes the table in `scope` if there is a timestep, from `timestep` [kTimestepSlots, width] f32 (ltx_core
  // AdaLNZero).
  Modulation Norms(Exec& exec, ArenaScope& scope, const Tensor& timestep) const;

  struct Run {
    const AxialRope& rope;  // of x's grid; with kRepeat, of a grid with half a window more on the left and the right
    Modulation norms;
    DecoderBorder border = DecoderBorder::kShift;
    int64_t slab_elements = kSlabElements;
    // Writes the context of x's frames [first, first + count) to `out` [count, height, width, context_width].
    absl::FunctionRef<void(int64_t first, int64_t count, Tensor out)> context;
    absl::FunctionRef<absl::Status()> go_on;  // called before each slab; an error ends the run
  };
  // x is undefined after an error, which is go_on's.
  absl::Status Forward(Exec& exec, const Run& run, Tensor x) const;

  // Columns that kRepeat adds on each side.
  int64_t margin() const { return options_.window[2] / 2; }

 private:
  class Slabs;
  absl::Status LoadNorms(WeightLoader& weights);
  Gate GateOf(const Parameter& gate) const;
  void Add(Exec& exec, const Tensor& from, const Weight& w, const Parameter& gate, const Tensor& x) const;
  void Mlp(Exec& exec, const Tensor& normed, const Tensor& x) const;

  Options options_;
  Parameter norms_;            // [1, 4, width] f32 without a timestep; see Norms
  Parameter scale_shift_;      // [4, width] f32: rows 0, 1, 3 and 4 of scale_shift_table
  Parameter weights_;          // [2, width] f32: norm1 and norm2
  Parameter weights_minus_1_;  // likewise
  Parameter q_norm_, k_norm_;
  Weight qkv_, proj_, gate_up_, down_, context_proj_;
  Parameter gate_attention_, gate_mlp_, gate_context_;  // [1, 1, width] f32; undefined: 1
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_NEIGHBOURHOOD_BLOCK_H_

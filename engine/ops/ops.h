// All computation: one virtual class with three backends: CPU, CUDA, and DryOps, which only counts.
//
// Rules for every op. Inputs are const&; outputs are passed by value, last unless the op works in place. An op
// allocates nothing, returns nothing, reads nothing back on the host, and enqueues its work on stream(). Arithmetic is
// float32 whatever the storage dtype (f32 or bf16), rounded once on store. "rows" means all dimensions but the last.
// Invalid shapes are a caller's mistake and CHECK-fail. The body of a fused op is its definition (fused_reference.cc),
// which a backend may override; the pure virtual ops are the primitives.
#ifndef KINORA_ENGINE_OPS_OPS_H_
#define KINORA_ENGINE_OPS_OPS_H_

#include "engine/ops/op_params.h"
#include "engine/ops/pixel_params.h"
#include "engine/ops/weight_ops.h"
#include "engine/tensor/arena.h"
#include "engine/tensor/stream.h"

namespace kinora {

class Ops : public WeightOps {
 public:
  virtual Stream& stream() = 0;
  // Whether tensors have no memory.
  virtual bool dry() const { return false; }

  // ---- Linear algebra

  // out[rows, w.out] (=, += or += gate ⊙) activation(x[rows, w.in] · wᵀ + bias). x and out f32 or bf16; they must
  // not overlap.
  virtual void Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) = 0;
  // softmax(scale · q kᵀ + bias) v without an N×N matrix. q, out: [batch·queries, heads·d]; k, v:
  // [kv_batches·keys, kv_heads·d]; d a multiple of 8, at most kMaxHeadWidth; scale positive. A row's result does not
  // depend on the other rows. A query that sees no key gets zeros.
  virtual void Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                         Tensor out) = 0;
  // Attention over `chunks` equal runs of `keys/chunks` keys, with a separate result for each, so that each rank can
  // hold some of the chunks. k, v: this rank's keys [kv_batches·keys, …]. out: [chunks, batch·queries, heads, d +
  // 2] f32: unnormalised sum, maximum, denominator. key_length counts this rank's keys. d: at most
  // kMaxChunkedHeadWidth.
  virtual void AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                               Tensor out) = 0;
  // Merges the results of AttentionChunks, in order, into out [batch·queries, heads·d].
  virtual void MergeChunks(const Tensor& chunks, Tensor out) = 0;
  // MergeChunks, then GateHeads.
  virtual void MergeChunksThenGateHeads(const Tensor& chunks, const Tensor& logits, Tensor out);
  // See NeighbourhoodOptions. q, out: [positions of o.queries, heads·d]; k, v: [positions of o.grid, heads·d].
  virtual void NeighbourhoodAttention(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                                      Tensor out) = 0;

  // ---- Norms and modulation. out may be x.

  // out = activation(x·rsqrt(mean x² + eps)·weight), the mean over a row; weight: [width] f32, null: 1.
  virtual void RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) = 0;
  // out = (x − mean)·rsqrt(variance + eps), both over a row; no affine part.
  virtual void LayerNorm(const Tensor& x, float eps, Tensor out) = 0;
  // out = scale·(x − mean)/(max − min + eps), each statistic over the whole tensor; mean = Σx/(elements + eps).
  virtual void NormalizeRange(const Tensor& x, float scale, float eps, Tensor out) = 0;
  // out = (x − mean)·rsqrt(variance + eps)·weight + bias, mean and variance over a group of columns in all rows of
  // a sample.
  virtual void GroupNorm(const Tensor& x, const GroupNormParams& params, Tensor out) = 0;
  // out = silu(GroupNorm(x) + residual); residual: x's shape and dtype, must not be out; null: 0.
  virtual void GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out);
  // out = x·(1 + scale) + shift.
  virtual void Modulate(const Tensor& x, const ScaleShift& m, Tensor out) = 0;
  // RmsNorm without a weight, then Modulate.
  virtual void ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out);
  // LayerNorm, then Modulate.
  virtual void ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out);
  // x += gate ⊙ y.
  virtual void GatedAdd(const Tensor& y, const Gate& gate, Tensor x) = 0;
  // update.x += gate ⊙ y, then update.normed from the sum, including rows past y's. y: [at most x's rows, width].
  virtual void AddThenNorms(const Tensor& y, const ResidualUpdate& update);
  // AddThenNorms of y = x · wᵀ + bias.
  virtual void MatmulThenNorms(const Tensor& x, const Weight& w, const ResidualUpdate& update);
  // x[rows, width] in place: RMS norm over each group of columns, times weight, then rotation. `sum_of_squares` [rows,
  // width/group] f32 replaces the sums when a group spans ranks (full_group columns); null: computed from x.
  virtual void NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) = 0;
  // NormRope of q, then of k.
  virtual void QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params);
  // NormRope of parts.q and parts.k; then blocks[s, b, i] = columns b·w … of row s·rows + i of q, of k and of v, side
  // by side. blocks: [sequences, n, rows, 3·w], contiguous.
  virtual void QkNormRopeToBlocks(const QkvParts& parts, Tensor blocks);
  // x[rows, width] -> out[rows, 1] f32: Σ x² of a row.
  virtual void SumOfSquares(const Tensor& x, Tensor out) = 0;

  // ---- Elementwise. out may be an input.

  // out = activation(x).
  virtual void Activate(const Tensor& x, Activation activation, Tensor out) = 0;
  // x += y.
  virtual void Add(const Tensor& y, Tensor x) = 0;
  // out = activation(gate) ⊙ up.
  virtual void ActivateThenMultiply(const Tensor& gate, Activation activation, const Tensor& up, Tensor out) = 0;
  // x[rows, heads·d] *= 2·sigmoid(logits[rows, heads]).
  virtual void GateHeads(const Tensor& logits, Tensor x) = 0;
  // Copies values, of x's dtype, to x's rows [first, first + values.rows()); then GateHeads.
  virtual void ReplaceRowsThenGateHeads(const Tensor& values, int64_t first, const Tensor& logits, Tensor x);
  // Copies from.blocks, then from.values to x, which has their dtype; then GateHeads unless logits is null.
  virtual void JoinBlocksThenGateHeads(const HeadBlocks& from, const Tensor* logits, Tensor x);
  // out = x·factor.
  virtual void Scale(const Tensor& x, float factor, Tensor out) = 0;
  // out = x·scale[width] + shift[width], both f32.
  virtual void Affine(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor out) = 0;
  // Sets every element of out to value.
  virtual void Fill(float value, Tensor out) = 0;

  // ---- Lookups

  // out[i] = table[ids[i]]·factor; ids: [rows of out] i32, row numbers of table [rows, width].
  virtual void GatherRows(const Tensor& table, const Tensor& ids, float factor, Tensor out) = 0;
  // Adds one to each of counters, i32, so that a replayed graph can count its replays.
  virtual void Increment(Tensor counters) = 0;
  // t [rows] f32 -> [rows, n] f32: cos, then sin of t·10000^(−i/(n/2)).
  virtual void TimestepEmbedding(const Tensor& t, Tensor out) = 0;
  // cos, sin [tokens, columns] f32, contiguous: of `angles`, within 1 ulp.
  virtual void RopeTable(const RopeAngles& angles, Tensor cos, Tensor sin) = 0;

  // ---- Convolutions: activations are [frames, height, width, channels]; 1-D and 2-D convolutions have extents of 1.

  // x [F, H, W, w.in] -> out [F', H', W', w.out] (=, +=): activation(Σ over w's taps + bias), each extent padded and
  // strided by its ConvAxis.
  virtual void Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) = 0;
  // Channels in the order (time, height, width, c) move to space-time: [F,H,W,s·C] -> [s_t·F − drop, s_h·H,
  // s_w·W, C]. With `channels_outer` the result's channels repeat cyclically until out's width is full (the residual
  // of LTX-2.0's upsampler).
  virtual void DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) = 0;
  // [F,H,W,C] -> [(F + repeat)/s_t, H/s_h, W/s_w, s·C/mean_of].
  virtual void SpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, Tensor out) = 0;
  // [F,H,W,C] -> [f_t·F, f_h·H, f_w·W, C].
  virtual void RepeatNearest(const Tensor& x, const SpaceTime& factor, Tensor out) = 0;

  // x [F,H,W,C] -> [F, ⌈H/stride⌉, ⌈W/stride⌉, C]: every channel under the filter [k, k] f32, k odd; zeros
  // outside.
  virtual void Blur(const Tensor& x, const Tensor& filter, int stride, Tensor out) = 0;

  // ---- Pictures: f32 [frames, height, width, colours], contiguous. Bit-identical on every backend.
  // sums += ((tile·frames)·rows)·columns with blend's weights, each product rounded, at the tile's position in sums'
  // frames.
  virtual void AddTile(const Tensor& tile, const TileBlend& blend, Tensor sums) = 0;
  // rgb8 (u8) = floor(255·clamp((x + 1)/2, 0, 1)), where x is sums divided by their weights; a NaN gives 0.
  virtual void FinishRgb8(const Tensor& sums, const Rgb8Options& options, Tensor rgb8) = 0;

  // ---- Sound, f32 only
  // out = function(x). out may be x.
  virtual void Pointwise(const Tensor& x, const PointwiseFunction& function, Tensor out) = 0;
  // See AntiAliasedSnake. x, out: [time, width], contiguous, not overlapping.
  virtual void Snake(const Tensor& x, const AntiAliasedSnake& snake, Tensor out) = 0;
  // Conv of Snake(x) along time: x [time, w.in()] -> out [time', w.out()] (=, +=), which must not overlap x. bent:
  // scratch memory of x's shape for the result of Snake; undefined afterwards.
  virtual void SnakeThenConv(const Tensor& x, const AntiAliasedSnake& snake, const Weight& w, const ConvAxis& time,
                             Accumulate accumulate, Tensor bent, Tensor out);
  // [rows, 2·n]: n real, then n imaginary parts -> [rows, n] absolute values.
  virtual void Magnitude(const Tensor& x, Tensor out) = 0;

  // ---- Denoising loop, all f32 and contiguous; scalars that change every step are read from tensors.
  // x0 = z − sigma·v. z, v, x0: [passes·tokens, channels] (z: [tokens, channels]); sigma: [1] or [tokens].
  virtual void PredictX0(const Tensor& z, const Tensor& v, const Tensor& sigma, Tensor x0) = 0;
  // out = Σ weights[p]·x0[p]; if r = weights[passes] != 0 and std(out) != 0: out *= r·std(x0[cond])/std(out) + 1 −
  // r (unbiased, sums in one fixed order). weights: [passes + 1] f32, at most 4 passes.
  virtual void CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) = 0;
  // z += (z − x0)/sigmas[0]·(sigmas[1] − sigmas[0]); sigmas: [2] f32.
  virtual void EulerStep(const Tensor& x0, const Tensor& sigmas, Tensor z) = 0;
  // prediction.x0 = CombineGuidance(PredictX0(z)), mixed with clean latents; then EulerStep of z towards it.
  virtual void GuidedEulerStep(const Prediction& prediction, const Tensor& sigmas, Tensor z);
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_OPS_H_

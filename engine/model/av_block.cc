#include "engine/model/av_block.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/redistribute.h"

namespace kinora {
namespace {

// Rows of the modulation tables (spec §4.5).
enum Slot { kShiftSelf, kScaleSelf, kGateSelf, kShiftFf, kScaleFf, kGateFf, kShiftPrompt, kScalePrompt, kGatePrompt };
enum PromptSlot { kShiftContext, kScaleContext };
enum CrossSlot { kScaleToVideo, kShiftToVideo, kScaleToAudio, kShiftToAudio, kGateRow };  // scale comes first here

Modulation BlockModulation(const Tensor& table, const AvStream& s) { return {s.in.tables.block, table, s.in.row}; }

ScaleShift CrossModulation(const Tensor& table, const AvStream& s, CrossSlot scale, CrossSlot shift) {
  return {{s.in.tables.cross, table.Rows(0, kGateRow), s.in.row}, scale, shift};
}
Gate CrossGate(const Tensor& table, const AvStream& s) {
  return {{s.in.tables.cross_gate, table.Rows(kGateRow, kGateRow + 1), Tensor()}, 0};
}

void BatchOverPasses(int passes, AttentionOptions& options) {
  options.batch = options.kv_batches = passes;
  for (int i = 0; i < passes; ++i) options.kv_batch[i] = static_cast<int8_t>(i);
}

bool Contains(const std::vector<int>& blocks, int index) {
  return std::find(blocks.begin(), blocks.end(), index) != blocks.end();
}

Tensor PassRows(const Tensor& t, int64_t rows, int begin, int end) { return t.As2D().Rows(begin * rows, end * rows); }

}  // namespace

absl::StatusOr<AvBlock::Layers> AvBlock::LoadLayers(WeightLoader weights, const TransformerConfig& config,
                                                    const ModalityConfig& modality, const std::string& prefix,
                                                    std::string_view cross_table) {
  Layers layers;
  const int64_t width = modality.width();
  AttentionShape shape{.query_width = width,
                       .context_width = width,
                       .heads = modality.heads,
                       .head_dim = modality.head_dim,
                       .gated = config.gated_attention,
                       .norm_eps = static_cast<float>(config.norm_eps)};
  KINORA_ASSIGN_OR_RETURN(layers.self, Attention::Load(weights.Under(absl::StrCat(prefix, "attn1")), shape));
  shape.context_width = modality.context_width;
  KINORA_ASSIGN_OR_RETURN(layers.prompt, Attention::Load(weights.Under(absl::StrCat(prefix, "attn2")), shape));
  KINORA_ASSIGN_OR_RETURN(layers.ff, FeedForward::Load(weights.Under(absl::StrCat(prefix, "ff")), width,
                                                       modality.ff_width(), modality.ff_bias));
  KINORA_ASSIGN_OR_RETURN(layers.table, weights.LoadTensor(absl::StrCat(prefix, "scale_shift_table"),
                                                           {config.modulation_rows(), width}));
  if (config.cross_attention_adaln) {
    KINORA_ASSIGN_OR_RETURN(layers.prompt_table, weights.LoadTensor(absl::StrCat(prefix, "prompt_scale_shift_table"),
                                                                    {2, modality.context_width}));
  }
  KINORA_ASSIGN_OR_RETURN(layers.cross_table, weights.LoadTensor(cross_table, {5, width}));
  return layers;
}

absl::StatusOr<AvBlock> AvBlock::Load(WeightLoader weights, const TransformerConfig& config, int index) {
  AvBlock block;
  block.index_ = index;
  block.eps_ = static_cast<float>(config.norm_eps);
  KINORA_ASSIGN_OR_RETURN(block.video_,
                          LoadLayers(weights, config, config.video, "", "scale_shift_table_a2v_ca_video"));
  KINORA_ASSIGN_OR_RETURN(block.audio_,
                          LoadLayers(weights, config, config.audio, "audio_", "scale_shift_table_a2v_ca_audio"));
  // Both directions work in the audio's heads.
  AttentionShape shape{.query_width = config.video.width(),
                       .context_width = config.audio.width(),
                       .heads = config.audio.heads,
                       .head_dim = config.audio.head_dim,
                       .gated = config.gated_attention,
                       .norm_eps = static_cast<float>(config.norm_eps)};
  KINORA_ASSIGN_OR_RETURN(block.audio_to_video_, Attention::Load(weights.Under("audio_to_video_attn"), shape));
  std::swap(shape.query_width, shape.context_width);
  KINORA_ASSIGN_OR_RETURN(block.video_to_audio_, Attention::Load(weights.Under("video_to_audio_attn"), shape));
  return block;
}

void AvBlock::Forward(Exec& exec, const Passes& passes, Updates updates, AvStream& video, AvStream& audio) const {
  if (updates.video) {
    AttendSelf(exec, video_, passes, Contains(passes.perturbed_video_blocks, index_), video);  // x += gate · Attn(AdaLN(x))
    AttendPrompt(exec, video_, passes, video);  // x += gate · Attn(AdaLN(x), prompt)
  }
  if (updates.audio) {
    AttendSelf(exec, audio_, passes, Contains(passes.perturbed_audio_blocks, index_), audio);
    AttendPrompt(exec, audio_, passes, audio);
  }
  AttendAcross(exec, passes, updates, video, audio);         // both directions read the state before either writes
  if (updates.video) FeedForwardPart(exec, video_, video);  // x += gate · Mlp(AdaLN(x))
  if (updates.audio) FeedForwardPart(exec, audio_, audio);
}

void AvBlock::AttendSelf(Exec& exec, const Layers& layers, const Passes& passes, bool perturbed, AvStream& stream) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = layers.self;
  const Modulation modulation = BlockModulation(layers.table, stream);
  const int64_t rows = stream.in.rows, all = passes.count * rows, inner = attention.inner();
  Tensor normed = temp.Alloc(exec.dtype, stream.x.shape());
  exec.ops.ModulatedRmsNorm(stream.x, {modulation, kScaleSelf, kShiftSelf}, eps_, normed);
  Tensor qkv = temp.Alloc(exec.dtype, {all, 3 * inner});
  Tensor attended = temp.Alloc(exec.dtype, {all, inner});
  const Tensor q = qkv.Columns(0, inner), k = qkv.Columns(inner, 2 * inner), v = qkv.Columns(2 * inner, 3 * inner);
  attention.Values(exec, normed, v);

  // The perturbed pass takes its values for the result and needs neither queries nor keys: the passes before and after it attend.
  const int skipped = perturbed ? passes.perturbed : -1;
  const auto attend = [&](int begin, int end) {
    if (begin >= end) return;
    ArenaScope part(exec.arena);
    const Tensor x = PassRows(normed, rows, begin, end);
    const Tensor qp = PassRows(q, rows, begin, end), kp = PassRows(k, rows, begin, end);
    attention.Queries(exec, x, qp);
    attention.Keys(exec, x, kp);
    attention.Normalize(exec, qp, stream.in.rope, kp, stream.in.rope);
    AttentionOptions options = attention.options();
    BatchOverPasses(end - begin, options);
    options.bias = stream.in.self_bias;
    const Tensor result = PassRows(attended, rows, begin, end);
    if (!stream.in.split) {
      exec.ops.Attention(qp, kp, PassRows(v, rows, begin, end), options, result);
      return;
    }
    const Tensor gathered = GatherTokens(exec, part, {qp, kp, PassRows(v, rows, begin, end)}, end - begin);
    const int64_t width = gathered.width() / 3;
    options.heads = static_cast<int>(width / attention.head_dim());
    options.key_length = stream.in.tokens;
    Tensor whole = GatheredLike(exec, part, result);
    exec.ops.Attention(gathered.Columns(0, width), gathered.Columns(width, 2 * width),
                       gathered.Columns(2 * width, 3 * width), options, whole);
    ScatterTokens(exec, whole, end - begin, result);
  };
  if (skipped < 0) {
    attend(0, passes.count);
  } else {
    attend(0, skipped);
    attend(skipped + 1, passes.count);
    exec.ops.stream().Copy(PassRows(v, rows, skipped, skipped + 1), PassRows(attended, rows, skipped, skipped + 1));
  }
  attention.Finish(exec, normed, attended, {.accumulate = Accumulate::kGated, .gate = {modulation, kGateSelf}}, stream.x);
}

void AvBlock::AttendPrompt(Exec& exec, const Layers& layers, const Passes& passes, AvStream& stream) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = layers.prompt;
  const bool modulated = layers.prompt_table.tensor().defined();
  const Modulation modulation = BlockModulation(layers.table, stream);
  Tensor normed = temp.Alloc(exec.dtype, stream.x.shape());
  if (modulated) {
    exec.ops.ModulatedRmsNorm(stream.x, {modulation, kScalePrompt, kShiftPrompt}, eps_, normed);
  } else {
    exec.ops.RmsNorm(stream.x, nullptr, eps_, Activation::kNone, normed);
  }
  Tensor q = temp.Alloc(exec.dtype, {stream.x.rows(), attention.inner()});
  attention.Queries(exec, normed, q);

  PromptCache cache;
  if (stream.in.prompt_cache.empty()) {
    const Tensor& context = stream.in.context;
    cache.keys = temp.Alloc(exec.dtype, {context.rows(), attention.inner()});
    cache.values = temp.Alloc(exec.dtype, {context.rows(), attention.inner()});
    Tensor prompt = context;
    if (modulated) {
      prompt = temp.Alloc(exec.dtype, context.shape());
      exec.ops.Modulate(context, {{stream.in.tables.prompt, layers.prompt_table, Tensor()}, kScaleContext, kShiftContext},
                        prompt);
    }
    attention.Keys(exec, prompt, cache.keys);
    attention.Values(exec, prompt, cache.values);
    attention.Normalize(exec, q, {}, cache.keys, {});
  } else {
    cache = stream.in.prompt_cache[index_];
    attention.Normalize(exec, q, {}, Tensor(), {});
  }
  AttentionOptions options = attention.options();
  options.batch = passes.count;
  options.kv_batches = passes.contexts;
  options.kv_batch = passes.context;
  Tensor attended = temp.Alloc(exec.dtype, {stream.x.rows(), attention.inner()});
  exec.ops.Attention(q, cache.keys, cache.values, options, attended);
  MatmulOptions result{.accumulate = Accumulate::kAdd};
  if (modulated) result = {.accumulate = Accumulate::kGated, .gate = {modulation, kGatePrompt}};
  attention.Finish(exec, normed, attended, result, stream.x);
}

void AvBlock::FillPromptCache(Exec& exec, const Tensor& video_context, PromptCache video, const Tensor& audio_context,
                              PromptCache audio) const {
  const auto fill = [&](const Attention& attention, const Tensor& context, const PromptCache& cache) {
    attention.Keys(exec, context, cache.keys);
    attention.Values(exec, context, cache.values);
    attention.Normalize(exec, Tensor(), {}, cache.keys, {});
  };
  fill(video_.prompt, video_context, video);
  fill(audio_.prompt, audio_context, audio);
}

void AvBlock::AttendAcross(Exec& exec, const Passes& passes, Updates updates, AvStream& video, AvStream& audio) const {
  const int count = passes.isolated >= 0 ? passes.isolated : passes.count;
  if (count == 0) return;
  ArenaScope temp(exec.arena);
  const auto normed = [&](const Layers& layers, const AvStream& stream, CrossSlot scale, CrossSlot shift) {
    const Tensor x = PassRows(stream.x, stream.in.rows, 0, count);
    Tensor out = temp.Alloc(exec.dtype, x.shape());
    exec.ops.ModulatedRmsNorm(x, CrossModulation(layers.cross_table, stream, scale, shift), eps_, out);
    return out;
  };
  const Tensor to_audio_from = updates.audio ? normed(video_, video, kScaleToAudio, kShiftToAudio) : Tensor();
  if (updates.video) {
    const Tensor to_video_from = normed(audio_, audio, kScaleToVideo, kShiftToVideo);
    AudioToVideo(exec, count, to_video_from, normed(video_, video, kScaleToVideo, kShiftToVideo), video, audio);
  }
  if (updates.audio) {
    VideoToAudio(exec, count, to_audio_from, normed(audio_, audio, kScaleToAudio, kShiftToAudio), video, audio);
  }
}

void AvBlock::AudioToVideo(Exec& exec, int passes, const Tensor& from_audio, const Tensor& normed_video, AvStream& video,
                           const AvStream& audio) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = audio_to_video_;
  const int64_t inner = attention.inner();
  Tensor q = temp.Alloc(exec.dtype, {normed_video.rows(), inner});
  Tensor k = temp.Alloc(exec.dtype, {from_audio.rows(), inner}), v = temp.Alloc(exec.dtype, {from_audio.rows(), inner});
  attention.Queries(exec, normed_video, q);
  attention.Keys(exec, from_audio, k);
  attention.Values(exec, from_audio, v);
  attention.Normalize(exec, q, video.in.cross_rope, k, audio.in.cross_rope);
  AttentionOptions options = attention.options();
  BatchOverPasses(passes, options);
  Tensor attended = temp.Alloc(exec.dtype, q.shape());
  exec.ops.Attention(q, k, v, options, attended);
  attention.Finish(exec, normed_video, attended, {.accumulate = Accumulate::kGated, .gate = CrossGate(video_.cross_table, video)},
                   PassRows(video.x, video.in.rows, 0, passes));
}

void AvBlock::VideoToAudio(Exec& exec, int passes, const Tensor& from_video, const Tensor& normed_audio, const AvStream& video,
                           AvStream& audio) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = video_to_audio_;
  const int64_t inner = attention.inner();
  Tensor q = temp.Alloc(exec.dtype, {normed_audio.rows(), inner});
  Tensor k = temp.Alloc(exec.dtype, {from_video.rows(), inner}), v = temp.Alloc(exec.dtype, {from_video.rows(), inner});
  attention.Queries(exec, normed_audio, q);
  attention.Keys(exec, from_video, k);
  attention.Values(exec, from_video, v);
  attention.Normalize(exec, q, audio.in.cross_rope, k, video.in.cross_rope);
  AttentionOptions options = attention.options();
  BatchOverPasses(passes, options);
  options.key_length = video.in.valid_rows;
  const auto chunk_shape = [&](int64_t chunks) {
    return Shape{chunks, q.rows(), options.heads, attention.head_dim() + 2};
  };
  Tensor chunks = temp.Alloc(DType::kF32, chunk_shape(ChunksHere(exec)));
  Tensor all = temp.Alloc(DType::kF32, chunk_shape(kKeyChunks));
  exec.ops.AttentionChunks(q, k, v, options, chunks);
  GatherChunks(exec, chunks, all);
  Tensor attended = temp.Alloc(exec.dtype, q.shape());
  exec.ops.MergeChunks(all, attended);
  attention.Finish(exec, normed_audio, attended, {.accumulate = Accumulate::kGated, .gate = CrossGate(audio_.cross_table, audio)},
                   PassRows(audio.x, audio.in.rows, 0, passes));
}

void AvBlock::FeedForwardPart(Exec& exec, const Layers& layers, AvStream& stream) const {
  ArenaScope temp(exec.arena);
  const Modulation modulation = BlockModulation(layers.table, stream);
  Tensor normed = temp.Alloc(exec.dtype, stream.x.shape());
  exec.ops.ModulatedRmsNorm(stream.x, {modulation, kScaleFf, kShiftFf}, eps_, normed);
  layers.ff.Forward(exec, normed, {.accumulate = Accumulate::kGated, .gate = {modulation, kGateFf}}, stream.x);
}

}  // namespace kinora

#include "engine/model/av_block.h"

#include <algorithm>
#include <array>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/redistribute.h"

namespace kinora {
namespace {

// Rows of the modulation tables (docs/model.md "Modulation").
enum Slot { kShiftSelf, kScaleSelf, kGateSelf, kShiftFf, kScaleFf, kGateFf, kShiftPrompt, kScalePrompt, kGatePrompt };
enum PromptSlot { kShiftContext, kScaleContext };
enum CrossSlot { kScaleToVideo, kShiftToVideo, kScaleToAudio, kShiftToAudio, kGateRow };  // scale comes first here

Modulation BlockModulation(const Tensor& table, const ModalityState& s) { return {s.in.tables.block, table, s.in.row}; }

// Rows of a modality's cross table for one direction of cross-modal attention.
struct Direction {
  CrossSlot scale, shift;
};
constexpr Direction kToVideo{kScaleToVideo, kShiftToVideo}, kToAudio{kScaleToAudio, kShiftToAudio};

// Norms of a modality for the parts of a block. table: of the block that reads the norm.
NormedOutput SelfNorm(const Tensor& table, const ModalityState& s) {
  return {s.normed, {BlockModulation(table, s), kScaleSelf, kShiftSelf}};
}
NormedOutput PromptNorm(const Tensor& table, bool modulated, const ModalityState& s) {
  if (!modulated) return {s.normed};
  return {s.normed, {BlockModulation(table, s), kScalePrompt, kShiftPrompt}};
}
NormedOutput FeedForwardNorm(const Tensor& table, const ModalityState& s) {
  return {s.normed, {BlockModulation(table, s), kScaleFf, kShiftFf}};
}
NormedOutput CrossNorm(const Tensor& table, const ModalityState& s, Direction direction, const Tensor& out) {
  const Modulation modulation{s.in.tables.cross, table.Rows(0, kGateRow), s.in.row};
  return {out, {modulation, direction.scale, direction.shift}};
}
Gate CrossGate(const Tensor& table, const ModalityState& s) {
  return {{s.in.tables.cross_gate, table.Rows(kGateRow, kGateRow + 1), Tensor()}, 0};
}

void BatchOverPasses(int passes, AttentionOptions& options) {
  options.batch = options.kv_batches = passes;
  for (int i = 0; i < passes; ++i) options.kv_batch[i] = static_cast<int8_t>(i);
}

// Up to so many tokens (20 s of sound), computing attention that is not read costs less (2 GFLOP in 2,048 columns) than
// a second call for the passes after it.
constexpr int64_t kFewTokens = 512;

// Returns n such that the first n passes have cross-modal attention.
int PassesAcross(const Passes& passes, const PerModality<ModalityUse>& use) {
  if (use.video == ModalityUse::kAbsent || use.audio == ModalityUse::kAbsent) return 0;
  return passes.isolated >= 0 ? passes.isolated : passes.count;
}

bool Contains(const std::vector<int>& blocks, int index) {
  return std::find(blocks.begin(), blocks.end(), index) != blocks.end();
}

Tensor PassRows(const Tensor& t, int64_t rows, int begin, int end) { return t.As2D().Rows(begin * rows, end * rows); }

// Runs a part for the modalities that have it. The two do not depend on each other, so they may run concurrently if
// at most one has collectives: the video's part, or with `sound_gathers` the sound's. Tensor ranks have sums in both.
void ForEachModality(Exec& exec, const PerModality<bool>& have, absl::FunctionRef<void(Exec&)> video,
                     absl::FunctionRef<void(Exec&)> audio, bool sound_gathers = false) {
  if (have.video && have.audio && exec.mesh.tensor().size() == 1) {
    return sound_gathers ? Concurrently(exec, audio, video) : Concurrently(exec, video, audio);
  }
  if (have.video) video(exec);
  if (have.audio) audio(exec);
}

struct PassRange {
  int begin, end;
};

// Ranges of passes, ascending.
using PassRanges = absl::InlinedVector<PassRange, 2>;

// Returns the passes that attend to themselves. In the skipped pass (-1: none) the values replace the result, so only
// the passes before and after it attend. With few tokens it attends too, but the result is not read. Its unread queries
// and keys cost less than a second product would.
PassRanges AttendingPasses(int count, int skipped, int64_t tokens) {
  if (skipped < 0 || tokens <= kFewTokens) return {{0, count}};
  PassRanges ranges;
  if (skipped > 0) ranges.push_back({0, skipped});
  if (skipped + 1 < count) ranges.push_back({skipped + 1, count});
  return ranges;
}

// Self-attention of passes from qkv [passes·rows, 3·width] to result [passes·rows, width], which begin with pass
// `first`. options: of a single pass.
void AttendRanges(Exec& exec, const PassRanges& ranges, int first, int64_t rows, AttentionOptions options,
                  const Tensor& qkv, const Tensor& result) {
  const int64_t width = result.width();
  for (const PassRange& range : ranges) {
    const auto of_range = [&](const Tensor& t) { return PassRows(t, rows, range.begin - first, range.end - first); };
    const Tensor here = of_range(qkv);
    BatchOverPasses(range.end - range.begin, options);
    exec.ops.Attention(here.Columns(0, width), here.Columns(width, 2 * width), here.Columns(2 * width, 3 * width),
                       options, of_range(result));
  }
}

// The same, with norm and rotation, for tokens that ranks share. All passes from the first to the last range take part
// in one exchange, including those between ranges, which are not read. Returns the result in the memory of qkv.
HeadBlocks AttendAcrossRanks(Exec& exec, const Attention& attention, const PassRanges& ranges, const BlockInputs& in,
                             const Tensor& qkv) {
  const int first = ranges.front().begin, last = ranges.back().end, passes = last - first;
  const Tensor gathered = attention.NormalizeAndGather(exec, PassRows(qkv, in.rows, first, last), in.rope, passes);
  ArenaScope temp(exec.arena);
  Tensor attended = temp.Alloc(exec.dtype, {gathered.rows(), gathered.width() / 3});
  AttentionOptions options = attention.options();
  options.bias = in.self_bias;
  options.heads = static_cast<int>(attended.width() / attention.head_dim());
  options.key_length = in.tokens;
  AttendRanges(exec, ranges, first, attended.rows() / passes, options, gathered, attended);
  return {.blocks = ScatterTokens(exec, attended, gathered, passes), .first_block = first * in.rows};
}

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
                       .to_itself = true,
                       .gated = config.gated_attention,
                       .norm_eps = static_cast<float>(config.norm_eps)};
  KINORA_ASSIGN_OR_RETURN(layers.self, Attention::Load(weights.Under(absl::StrCat(prefix, "attn1")), shape));
  shape.to_itself = false;
  shape.context_width = modality.context_width;
  KINORA_ASSIGN_OR_RETURN(layers.prompt, Attention::Load(weights.Under(absl::StrCat(prefix, "attn2")), shape));
  KINORA_ASSIGN_OR_RETURN(layers.ff, FeedForward::Load(weights.Under(absl::StrCat(prefix, "ff")), width,
                                                       modality.ff_width(), modality.ff_bias));
  KINORA_ASSIGN_OR_RETURN(
      layers.table, weights.LoadTensor(absl::StrCat(prefix, "scale_shift_table"), {config.modulation_rows(), width}));
  if (config.cross_attention_adaln) {
    KINORA_ASSIGN_OR_RETURN(layers.prompt_table, weights.LoadTensor(absl::StrCat(prefix, "prompt_scale_shift_table"),
                                                                    {2, modality.context_width}));
  }
  KINORA_ASSIGN_OR_RETURN(layers.cross_table, weights.LoadTensor(cross_table, {5, width}));
  return layers;
}

absl::StatusOr<AvBlock> AvBlock::Load(const WeightLoader& weights, const TransformerConfig& config, int index,
                                      Modalities modalities) {
  const WeightLoader picture = modalities == Modalities::kSound ? weights.HeldElsewhere() : weights;
  AvBlock block;
  block.index_ = index;
  block.eps_ = static_cast<float>(config.norm_eps);
  KINORA_ASSIGN_OR_RETURN(block.video_,
                          LoadLayers(picture, config, config.video, "", "scale_shift_table_a2v_ca_video"));
  KINORA_ASSIGN_OR_RETURN(block.audio_,
                          LoadLayers(weights, config, config.audio, "audio_", "scale_shift_table_a2v_ca_audio"));
  // Both directions work in the audio's heads.
  AttentionShape shape{.query_width = config.video.width(),
                       .context_width = config.audio.width(),
                       .heads = config.audio.heads,
                       .head_dim = config.audio.head_dim,
                       .gated = config.gated_attention,
                       .norm_eps = static_cast<float>(config.norm_eps)};
  KINORA_ASSIGN_OR_RETURN(block.audio_to_video_, Attention::Load(picture.Under("audio_to_video_attn"), shape));
  std::swap(shape.query_width, shape.context_width);
  KINORA_ASSIGN_OR_RETURN(block.video_to_audio_, Attention::Load(picture.Under("video_to_audio_attn"), shape));
  return block;
}

void AvBlock::Enter(Exec& exec, const ModalityState& video, const ModalityState& audio) const {
  const auto enter = [&](const Layers& layers, const ModalityState& state) {
    if (!state.normed.defined()) return;
    const NormedOutput self = SelfNorm(layers.table, state);
    exec.ops.ModulatedRmsNorm(state.x, self.modulation, eps_, self.out);
  };
  enter(video_, video);
  enter(audio_, audio);
}

void AvBlock::Forward(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use, const AvBlock* next,
                      const ModalityState& video, const ModalityState& audio) const {
  const PerModality<bool> update{use.video == ModalityUse::kUpdated, use.audio == ModalityUse::kUpdated};
  // x += gate · Attn(AdaLN(x))
  ForEachModality(
      exec, update,
      [&](Exec& e) { AttendSelf(e, video_, passes, Contains(passes.perturbed_blocks.video, index_), video); },
      [&](Exec& e) { AttendSelf(e, audio_, passes, Contains(passes.perturbed_blocks.audio, index_), audio); });
  AttendContexts(exec, passes, use, video, audio);
  // x += gate · Mlp(AdaLN(x))
  const auto then = [](const Layers& layers, const ModalityState& state) {
    return NormedOutputs{SelfNorm(layers.table, state)};
  };
  ForEachModality(
      exec, update,
      [&](Exec& e) {
        FeedForwardPart(e, video_, next != nullptr ? then(next->video_, video) : NormedOutputs{}, video);
      },
      [&](Exec& e) {
        FeedForwardPart(e, audio_, next != nullptr ? then(next->audio_, audio) : NormedOutputs{}, audio);
      });
}

void AvBlock::AttendContexts(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use,
                             const ModalityState& video, const ModalityState& audio) const {
  const bool update_video = use.video == ModalityUse::kUpdated, update_audio = use.audio == ModalityUse::kUpdated;
  const int across = PassesAcross(passes, use);
  ArenaScope temp(exec.arena);
  // Norms that each modality provides to the other, computed before cross-modal attention updates either.
  const auto given = [&](const ModalityState& from, bool read) {
    return read && across > 0 ? temp.Alloc(exec.dtype, {across * from.in.rows, from.x.width()}) : Tensor();
  };
  const Tensor to_audio = given(video, update_audio), to_video = given(audio, update_video);
  // x += gate · Attn(AdaLN(x), prompt)
  const auto attend_prompt = [&](Exec& exec, const Layers& layers, Direction asks, Direction gives, const Tensor& given,
                                 const ModalityState& state) {
    const NormedOutput gift = CrossNorm(layers.cross_table, state, gives, given);
    if (!state.normed.defined()) {  // held
      if (given.defined())
        exec.ops.ModulatedRmsNorm(state.x.As2D().Rows(0, given.rows()), gift.modulation, eps_, given);
    } else if (across == 0) {
      AttendPrompt(exec, layers, passes, {FeedForwardNorm(layers.table, state)}, state);
    } else {
      const Tensor queries = PassRows(state.normed, state.in.rows, 0, across);
      AttendPrompt(exec, layers, passes, {CrossNorm(layers.cross_table, state, asks, queries), gift}, state);
    }
  };
  ForEachModality(
      exec, {use.video != ModalityUse::kAbsent, use.audio != ModalityUse::kAbsent},
      [&](Exec& e) { attend_prompt(e, video_, kToVideo, kToAudio, to_audio, video); },
      [&](Exec& e) { attend_prompt(e, audio_, kToAudio, kToVideo, to_video, audio); });
  // x += gate · Attn(AdaLN(x), AdaLN(the other))
  if (across == 0) return;
  ForEachModality(
      exec, {update_video, update_audio},
      [&](Exec& e) {
        AttendOther(e, across, {audio_to_video_, video_, to_video, audio, /*in_chunks=*/false}, video);
      },
      [&](Exec& e) {
        AttendOther(e, across, {video_to_audio_, audio_, to_audio, video, /*in_chunks=*/true}, audio);
      },
      /*sound_gathers=*/exec.mesh.tokens().size() > 1);
}

void AvBlock::AttendSelf(Exec& exec, const Layers& layers, const Passes& passes, bool perturbed,
                         const ModalityState& state) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = layers.self;
  const int64_t rows = state.in.rows, all = passes.count * rows, inner = attention.inner();
  Tensor qkv = temp.Alloc(exec.dtype, {all, 3 * inner});
  attention.QueriesKeysValues(exec, state.normed, qkv);

  const int skipped = perturbed ? passes.perturbed : -1;
  const PassRanges ranges = AttendingPasses(passes.count, skipped, state.in.tokens);
  const bool split = state.in.split && exec.mesh.tokens().size() > 1 && !ranges.empty();
  Attended attended;
  Tensor values;
  if (skipped >= 0) {
    values = PassRows(attention.Part(qkv, 2), rows, skipped, skipped + 1);
    const bool exchanged = split && ranges.front().begin <= skipped && skipped < ranges.back().end;
    if (exchanged) values = Kept(exec, temp, values);
  }
  if (split) attended.parts = AttendAcrossRanks(exec, attention, ranges, state.in, qkv);
  attended.parts.values = values;
  attended.parts.first_value = skipped * rows;
  attended.rows = temp.Alloc(exec.dtype, {all, inner});
  if (!split && !ranges.empty()) {
    const Tensor q = attention.Part(qkv, 0), k = attention.Part(qkv, 1);
    attention.Normalize(exec, q, state.in.rope, k, state.in.rope);
    AttentionOptions options = attention.options();
    options.bias = state.in.self_bias;
    options.key_length = state.in.tokens;
    AttendRanges(exec, ranges, 0, rows, options, qkv, attended.rows);
  }
  const bool modulated = layers.prompt_table.tensor().defined();
  attention.Finish(exec, state.normed, attended,
                   {.x = state.x,
                    .gate = {BlockModulation(layers.table, state), kGateSelf},
                    .eps = eps_,
                    .normed = {PromptNorm(layers.table, modulated, state)}});
}

// Returns the prompt's keys, before their norm, and values at this step's noise level.
PromptCache AvBlock::ProjectPrompt(Exec& exec, const Layers& layers, const BlockInputs& in, ArenaScope& temp) {
  const Attention& attention = layers.prompt;
  Tensor kv = temp.Alloc(exec.dtype, {in.context.rows(), 2 * attention.inner()});
  Tensor prompt = in.context;
  if (layers.prompt_table.tensor().defined()) {
    prompt = temp.Alloc(exec.dtype, in.context.shape());
    const Modulation modulation{in.tables.prompt, layers.prompt_table, Tensor()};
    exec.ops.Modulate(in.context, {modulation, kScaleContext, kShiftContext}, prompt);
  }
  attention.KeysValues(exec, prompt, kv);
  return {attention.Part(kv, 0), attention.Part(kv, 1)};
}

void AvBlock::AttendPrompt(Exec& exec, const Layers& layers, const Passes& passes, const NormedOutputs& next,
                           const ModalityState& state) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = layers.prompt;
  Tensor q = temp.Alloc(exec.dtype, {state.x.rows(), attention.inner()});
  attention.Queries(exec, state.normed, q);

  const bool cached = !state.in.prompt_cache.empty();
  const PromptCache prompt = cached ? state.in.prompt_cache[index_] : ProjectPrompt(exec, layers, state.in, temp);
  attention.Normalize(exec, q, {}, cached ? Tensor() : prompt.keys, {});
  AttentionOptions options = attention.options();
  options.batch = passes.count;
  options.kv_batches = passes.contexts;
  options.kv_batch = passes.context;
  Tensor attended = temp.Alloc(exec.dtype, {state.x.rows(), attention.inner()});
  exec.ops.Attention(q, prompt.keys, prompt.values, options, attended);
  ResidualUpdate update{.x = state.x, .eps = eps_, .normed = next};
  if (layers.prompt_table.tensor().defined()) update.gate = {BlockModulation(layers.table, state), kGatePrompt};
  attention.Finish(exec, state.normed, {.rows = attended}, update);
}

void AvBlock::FillPromptCaches(Exec& exec, PerModality<BlockInputs>& in) const {
  const auto fill = [&](const Attention& attention, BlockInputs& modality) {
    if (!modality.context.defined()) return;
    Tensor kv = exec.arena.Alloc(exec.dtype, {modality.context.rows(), 2 * attention.inner()});
    const PromptCache cache{attention.Part(kv, 0), attention.Part(kv, 1)};
    attention.KeysValues(exec, modality.context, kv);
    attention.Normalize(exec, Tensor(), {}, cache.keys, {});
    modality.prompt_cache.push_back(cache);
  };
  fill(video_.prompt, in.video);
  fill(audio_.prompt, in.audio);
}

void AvBlock::AttendOther(Exec& exec, int passes, const Cross& cross, const ModalityState& state) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = cross.attention;
  const int64_t inner = attention.inner();
  const Tensor normed = PassRows(state.normed, state.in.rows, 0, passes);
  Tensor q = temp.Alloc(exec.dtype, {normed.rows(), inner});
  Tensor kv = temp.Alloc(exec.dtype, {cross.from.rows(), 2 * inner});
  const Tensor k = attention.Part(kv, 0), v = attention.Part(kv, 1);
  attention.Queries(exec, normed, q);
  attention.KeysValues(exec, cross.from, kv);
  attention.Normalize(exec, q, state.in.cross_rope, k, cross.source.in.cross_rope);
  AttentionOptions options = attention.options();
  BatchOverPasses(passes, options);
  Attended attended;
  if (cross.in_chunks) {
    options.key_length = cross.source.in.valid_rows;
    Tensor chunks = temp.Alloc(DType::kF32, {ChunksHere(exec), q.rows(), options.heads, attention.head_dim() + 2});
    exec.ops.AttentionChunks(q, k, v, options, chunks);
    attended = {.rows = temp.Alloc(exec.dtype, q.shape()), .chunks = GatherChunks(exec, temp, chunks)};
  } else {
    attended = {.rows = temp.Alloc(exec.dtype, q.shape())};
    exec.ops.Attention(q, k, v, options, attended.rows);
  }
  attention.Finish(exec, normed, attended,
                   {.x = state.x,
                    .gate = CrossGate(cross.layers.cross_table, state),
                    .eps = eps_,
                    .normed = {FeedForwardNorm(cross.layers.table, state)}});
}

void AvBlock::FeedForwardPart(Exec& exec, const Layers& layers, const NormedOutputs& next,
                              const ModalityState& state) const {
  const Gate gate{BlockModulation(layers.table, state), kGateFf};
  layers.ff.Forward(exec, state.normed, {.x = state.x, .gate = gate, .eps = eps_, .normed = next});
}

}  // namespace kinora

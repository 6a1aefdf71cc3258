#include "engine/model/av_block.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/redistribute.h"

namespace kinora {
namespace {

// Rows of the modulation tables (docs/model.md "Modulation").
enum Slot { kShiftSelf, kScaleSelf, kGateSelf, kShiftFf, kScaleFf, kGateFf, kShiftPrompt, kScalePrompt, kGatePrompt };
enum PromptSlot { kShiftContext, kScaleContext };
enum CrossSlot { kScaleToVideo, kShiftToVideo, kScaleToAudio, kShiftToAudio, kGateRow };  // scale comes first here

Modulation BlockModulation(const Tensor& table, const AvStream& s) { return {s.in.tables.block, table, s.in.row}; }

// What a stream gives to the attention across in one of its directions.
struct Direction {
  CrossSlot scale, shift;
};
constexpr Direction kToVideo{kScaleToVideo, kShiftToVideo}, kToAudio{kScaleToAudio, kShiftToAudio};

// Norms of a stream as its parts read them; `table` is of the block that they belong to.
NormedOutput SelfNorm(const Tensor& table, const AvStream& s) {
  return {s.normed, {BlockModulation(table, s), kScaleSelf, kShiftSelf}};
}
NormedOutput PromptNorm(const Tensor& table, bool modulated, const AvStream& s) {
  if (!modulated) return {s.normed};
  return {s.normed, {BlockModulation(table, s), kScalePrompt, kShiftPrompt}};
}
NormedOutput FeedForwardNorm(const Tensor& table, const AvStream& s) {
  return {s.normed, {BlockModulation(table, s), kScaleFf, kShiftFf}};
}
NormedOutput CrossNorm(const Tensor& table, const AvStream& s, Direction direction, const Tensor& out) {
  const Modulation modulation{s.in.tables.cross, table.Rows(0, kGateRow), s.in.row};
  return {out, {modulation, direction.scale, direction.shift}};
}
Gate CrossGate(const Tensor& table, const AvStream& s) {
  return {{s.in.tables.cross_gate, table.Rows(kGateRow, kGateRow + 1), Tensor()}, 0};
}

void BatchOverPasses(int passes, AttentionOptions& options) {
  options.batch = options.kv_batches = passes;
  for (int i = 0; i < passes; ++i) options.kv_batch[i] = static_cast<int8_t>(i);
}

// Up to here, which is 20 s of sound, attention that nothing reads costs less than a call of its own for the passes
// behind it: 2 GFLOP in 2,048 columns.
constexpr int64_t kFewTokens = 512;

// How many passes, from the first, attend across the modalities.
int PassesAcross(const Passes& passes, const PerModality<ModalityUse>& use) {
  if (use.video == ModalityUse::kAbsent || use.audio == ModalityUse::kAbsent) return 0;
  return passes.isolated >= 0 ? passes.isolated : passes.count;
}

bool Contains(const std::vector<int>& blocks, int index) {
  return std::find(blocks.begin(), blocks.end(), index) != blocks.end();
}

Tensor PassRows(const Tensor& t, int64_t rows, int begin, int end) { return t.As2D().Rows(begin * rows, end * rows); }

// One part of the streams that have it, which know nothing of each other.
void ForEachModality(Exec& exec, const PerModality<bool>& have, absl::FunctionRef<void(Exec&)> video,
                     absl::FunctionRef<void(Exec&)> audio) {
  if (have.video && have.audio) return Concurrently(exec, video, audio);
  if (have.video) video(exec);
  if (have.audio) audio(exec);
}

struct Qkv {
  Tensor q, k, v;
};

struct PassRange {
  int begin, end;
};

// The passes of the ranges, which grow, attend each to itself, after one exchange between the ranks of all of them; one
// between two ranges is moved along unread. qkv: spent, as GatherTokens says.
void AttendPasses(Exec& exec, const Attention& attention, absl::Span<const PassRange> ranges, const StreamInputs& in,
                  const Qkv& qkv, const Tensor& result) {
  const int first = ranges.front().begin, passes = ranges.back().end - first;
  const auto among = [&](const Tensor& t) { return PassRows(t, in.rows, first, first + passes); };
  Qkv of{among(qkv.q), among(qkv.k), among(qkv.v)};
  const Tensor local = among(result);
  Tensor attended = local, gathered;
  AttentionOptions options = attention.options();
  options.bias = in.self_bias;
  ArenaScope temp(exec.arena);
  if (in.split) {
    gathered = GatherTokens(exec, temp, {of.q, of.k, of.v}, passes);
    const int64_t width = gathered.width() / 3;
    of = {gathered.Columns(0, width), gathered.Columns(width, 2 * width), gathered.Columns(2 * width, 3 * width)};
    attended = GatheredLike(exec, temp, local);
    options.heads = static_cast<int>(width / attention.head_dim());
    options.key_length = in.tokens;
  }
  const int64_t rows = attended.rows() / passes;
  for (const PassRange& range : ranges) {
    const auto part = [&](const Tensor& t) { return PassRows(t, rows, range.begin - first, range.end - first); };
    BatchOverPasses(range.end - range.begin, options);
    exec.ops.Attention(part(of.q), part(of.k), part(of.v), options, part(attended));
  }
  if (in.split) ScatterTokens(exec, attended, gathered, passes, local);
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
                                      Streams streams) {
  const WeightLoader picture = streams == Streams::kSound ? weights.HeldElsewhere() : weights;
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

void AvBlock::Enter(Exec& exec, const AvStream& video, const AvStream& audio) const {
  const auto enter = [&](const Layers& layers, const AvStream& stream) {
    if (!stream.normed.defined()) return;
    const NormedOutput self = SelfNorm(layers.table, stream);
    exec.ops.ModulatedRmsNorm(stream.x, self.modulation, eps_, self.out);
  };
  enter(video_, video);
  enter(audio_, audio);
}

void AvBlock::Forward(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use, const AvBlock* next,
                      const AvStream& video, const AvStream& audio) const {
  const PerModality<bool> update{use.video == ModalityUse::kUpdated, use.audio == ModalityUse::kUpdated};
  // x += gate · Attn(AdaLN(x))
  ForEachModality(
      exec, update,
      [&](Exec& e) { AttendSelf(e, video_, passes, Contains(passes.perturbed_blocks.video, index_), video); },
      [&](Exec& e) { AttendSelf(e, audio_, passes, Contains(passes.perturbed_blocks.audio, index_), audio); });
  AttendContexts(exec, passes, use, video, audio);
  // x += gate · Mlp(AdaLN(x))
  const auto then = [](const Layers& layers, const AvStream& stream) {
    return NormedOutputs{SelfNorm(layers.table, stream)};
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
                             const AvStream& video, const AvStream& audio) const {
  const bool update_video = use.video == ModalityUse::kUpdated, update_audio = use.audio == ModalityUse::kUpdated;
  const int across = PassesAcross(passes, use);
  ArenaScope temp(exec.arena);
  // What each stream gives to the other, taken before either changes: both directions read the same state.
  const auto given = [&](const AvStream& from, bool read) {
    return read && across > 0 ? temp.Alloc(exec.dtype, {across * from.in.rows, from.x.width()}) : Tensor();
  };
  const Tensor to_audio = given(video, update_audio), to_video = given(audio, update_video);
  // x += gate · Attn(AdaLN(x), prompt)
  const auto attend_prompt = [&](Exec& exec, const Layers& layers, Direction asks, Direction gives, const Tensor& given,
                                 const AvStream& stream) {
    const NormedOutput gift = CrossNorm(layers.cross_table, stream, gives, given);
    if (!stream.normed.defined()) {  // held
      if (given.defined())
        exec.ops.ModulatedRmsNorm(stream.x.As2D().Rows(0, given.rows()), gift.modulation, eps_, given);
    } else if (across == 0) {
      AttendPrompt(exec, layers, passes, {FeedForwardNorm(layers.table, stream)}, stream);
    } else {
      const Tensor queries = PassRows(stream.normed, stream.in.rows, 0, across);
      AttendPrompt(exec, layers, passes, {CrossNorm(layers.cross_table, stream, asks, queries), gift}, stream);
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
      });
}

void AvBlock::AttendSelf(Exec& exec, const Layers& layers, const Passes& passes, bool perturbed,
                         const AvStream& stream) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = layers.self;
  const int64_t rows = stream.in.rows, all = passes.count * rows, inner = attention.inner();
  Tensor qkv = temp.Alloc(exec.dtype, {all, 3 * inner});
  Attended attended{.rows = temp.Alloc(exec.dtype, {all, inner})};
  const Tensor q = attention.Part(qkv, 0), k = attention.Part(qkv, 1), v = attention.Part(qkv, 2);
  attention.QueriesKeysValues(exec, stream.normed, qkv);
  attention.Normalize(exec, q, stream.in.rope, k, stream.in.rope);

  // The perturbed pass takes its values for the result: the passes before and after it attend, and of few tokens it
  // too, in vain. Its queries and keys, which nothing reads then, cost less than a second product.
  const int skipped = perturbed ? passes.perturbed : -1;
  std::array<PassRange, 2> attending{};
  size_t ranges = 0;
  if (skipped < 0 || stream.in.tokens <= kFewTokens) {
    attending[ranges++] = {0, passes.count};
  } else {
    if (skipped > 0) attending[ranges++] = {0, skipped};
    if (skipped + 1 < passes.count) attending[ranges++] = {skipped + 1, passes.count};
  }
  if (skipped >= 0) {
    attended.values = Kept(exec, temp, PassRows(v, rows, skipped, skipped + 1));
    attended.first_value = skipped * rows;
  }
  if (ranges > 0) {
    AttendPasses(exec, attention, absl::MakeConstSpan(attending.data(), ranges), stream.in, {q, k, v}, attended.rows);
  }
  const bool modulated = layers.prompt_table.tensor().defined();
  attention.Finish(exec, stream.normed, attended,
                   {.x = stream.x,
                    .gate = {BlockModulation(layers.table, stream), kGateSelf},
                    .eps = eps_,
                    .normed = {PromptNorm(layers.table, modulated, stream)}});
}

// The prompt's keys, before their norm, and values at this step's noise level.
PromptCache AvBlock::ProjectPrompt(Exec& exec, const Layers& layers, const StreamInputs& in, ArenaScope& temp) {
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
                           const AvStream& stream) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = layers.prompt;
  Tensor q = temp.Alloc(exec.dtype, {stream.x.rows(), attention.inner()});
  attention.Queries(exec, stream.normed, q);

  const bool cached = !stream.in.prompt_cache.empty();
  const PromptCache prompt = cached ? stream.in.prompt_cache[index_] : ProjectPrompt(exec, layers, stream.in, temp);
  attention.Normalize(exec, q, {}, cached ? Tensor() : prompt.keys, {});
  AttentionOptions options = attention.options();
  options.batch = passes.count;
  options.kv_batches = passes.contexts;
  options.kv_batch = passes.context;
  Tensor attended = temp.Alloc(exec.dtype, {stream.x.rows(), attention.inner()});
  exec.ops.Attention(q, prompt.keys, prompt.values, options, attended);
  ResidualUpdate update{.x = stream.x, .eps = eps_, .normed = next};
  if (layers.prompt_table.tensor().defined()) update.gate = {BlockModulation(layers.table, stream), kGatePrompt};
  attention.Finish(exec, stream.normed, {.rows = attended}, update);
}

void AvBlock::FillPromptCaches(Exec& exec, PerModality<StreamInputs>& in) const {
  const auto fill = [&](const Attention& attention, StreamInputs& stream) {
    if (!stream.context.defined()) return;
    Tensor kv = exec.arena.Alloc(exec.dtype, {stream.context.rows(), 2 * attention.inner()});
    const PromptCache cache{attention.Part(kv, 0), attention.Part(kv, 1)};
    attention.KeysValues(exec, stream.context, kv);
    attention.Normalize(exec, Tensor(), {}, cache.keys, {});
    stream.prompt_cache.push_back(cache);
  };
  fill(video_.prompt, in.video);
  fill(audio_.prompt, in.audio);
}

void AvBlock::AttendOther(Exec& exec, int passes, const Cross& cross, const AvStream& stream) const {
  ArenaScope temp(exec.arena);
  const Attention& attention = cross.attention;
  const int64_t inner = attention.inner();
  const Tensor normed = PassRows(stream.normed, stream.in.rows, 0, passes);
  Tensor q = temp.Alloc(exec.dtype, {normed.rows(), inner});
  Tensor kv = temp.Alloc(exec.dtype, {cross.from.rows(), 2 * inner});
  const Tensor k = attention.Part(kv, 0), v = attention.Part(kv, 1);
  attention.Queries(exec, normed, q);
  attention.KeysValues(exec, cross.from, kv);
  attention.Normalize(exec, q, stream.in.cross_rope, k, cross.source.in.cross_rope);
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
                   {.x = stream.x,
                    .gate = CrossGate(cross.layers.cross_table, stream),
                    .eps = eps_,
                    .normed = {FeedForwardNorm(cross.layers.table, stream)}});
}

void AvBlock::FeedForwardPart(Exec& exec, const Layers& layers, const NormedOutputs& next,
                              const AvStream& stream) const {
  const Gate gate{BlockModulation(layers.table, stream), kGateFf};
  layers.ff.Forward(exec, stream.normed, {.x = stream.x, .gate = gate, .eps = eps_, .normed = next});
}

}  // namespace kinora

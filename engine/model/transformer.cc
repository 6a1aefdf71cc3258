#include "engine/model/transformer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"

namespace kinora {

// Offsets, in floats, of one modality's tables in a step's row.
struct Transformer::Offsets {
  int64_t block, prompt, cross, cross_gate, output, end;
};

Transformer::Offsets Transformer::OffsetsOf(const ModalityConfig& modality, int64_t k, int64_t begin) const {
  if (k == 0) return {begin, begin, begin, begin, begin, begin};  // the modality is absent
  Offsets o;
  const int64_t width = modality.width();
  o.block = begin;
  o.prompt = o.block + k * config_.modulation_rows() * width;
  o.cross = o.prompt + (config_.cross_attention_adaln ? 2 * modality.context_width : 0);
  o.cross_gate = o.cross + k * 4 * width;
  o.output = o.cross_gate + width;
  o.end = o.output + k * 2 * width;
  return o;
}

int64_t Transformer::TableFloats(const PerModality<int64_t>& k) const {
  return OffsetsOf(config_.audio, k.audio, OffsetsOf(config_.video, k.video, 0).end).end;
}

StepTables Transformer::TablesAt(const Tensor& row, const ModalityConfig& modality, int64_t k, int64_t begin) const {
  if (k == 0) return {};
  const Offsets o = OffsetsOf(modality, k, begin);
  const Tensor flat = row.Reshape({row.elements()});
  const int64_t width = modality.width();
  StepTables tables;
  tables.block = flat.Rows(o.block, o.prompt).Reshape({k, config_.modulation_rows(), width});
  if (config_.cross_attention_adaln)
    tables.prompt = flat.Rows(o.prompt, o.cross).Reshape({1, 2, modality.context_width});
  tables.cross = flat.Rows(o.cross, o.cross_gate).Reshape({k, 4, width});
  tables.cross_gate = flat.Rows(o.cross_gate, o.output).Reshape({1, 1, width});
  tables.output = flat.Rows(o.output, o.end).Reshape({k, 2, width});
  return tables;
}

PerModality<StepTables> Transformer::TablesIn(const Tensor& row, const PerModality<int64_t>& k) const {
  return {TablesAt(row, config_.video, k.video, 0),
          TablesAt(row, config_.audio, k.audio, OffsetsOf(config_.video, k.video, 0).end)};
}

absl::StatusOr<Transformer::Projection> Transformer::LoadProjection(const WeightLoader& weights, int64_t in,
                                                                    int64_t out) {
  Projection p;
  KINORA_ASSIGN_OR_RETURN(p.in, WeightLoader(weights).LoadWeight({"linear_1"}, {.out = out, .in = in}));
  KINORA_ASSIGN_OR_RETURN(p.out, WeightLoader(weights).LoadWeight({"linear_2"}, {.out = out, .in = out}));
  return p;
}

absl::StatusOr<Transformer::Marker> Transformer::LoadMarker(WeightLoader weights, int64_t width) {
  Marker m;
  KINORA_ASSIGN_OR_RETURN(m.embedding, weights.LoadTensor("keyframes_abs_pos_embedding", {1, width}));
  KINORA_ASSIGN_OR_RETURN(HostParameter ones,
                          HostParameter::Allocate("ones for the keyframe marker", DType::kF32, {1, width}));
  std::fill_n(ones.tensor().data<float>(), width, 1.0f);
  KINORA_ASSIGN_OR_RETURN(m.ones, weights.Upload(std::move(ones)));
  return m;
}

absl::StatusOr<Transformer::Modality> Transformer::LoadModality(WeightLoader weights, const TransformerConfig& config,
                                                                const ModalityConfig& modality, bool audio,
                                                                Modalities modalities) {
  Modality m;
  const WeightLoader across = modalities == Modalities::kSound ? weights.HeldElsewhere() : weights;
  if (!audio) weights = across;
  const std::string prefix = audio ? "audio_" : "";
  const int64_t width = modality.width();
  KINORA_ASSIGN_OR_RETURN(m.patchify, weights.LoadWeight({absl::StrCat(prefix, "patchify_proj")},
                                                         {.out = width, .in = modality.in_channels}));
  KINORA_ASSIGN_OR_RETURN(
      m.output, weights.LoadWeight({absl::StrCat(prefix, "proj_out")}, {.out = modality.out_channels, .in = width}));
  KINORA_ASSIGN_OR_RETURN(m.output_table, weights.LoadTensor(absl::StrCat(prefix, "scale_shift_table"), {2, width}));
  KINORA_ASSIGN_OR_RETURN(
      m.adaln, AdaLn::Load(weights.Under(absl::StrCat(prefix, "adaln_single")), width, config.modulation_rows()));
  KINORA_ASSIGN_OR_RETURN(
      m.cross, AdaLn::Load(across.Under(absl::StrCat("av_ca_", audio ? "audio" : "video", "_scale_shift_adaln_single")),
                           width, 4));
  KINORA_ASSIGN_OR_RETURN(
      m.cross_gate,
      AdaLn::Load(across.Under(absl::StrCat("av_ca_", audio ? "v2a" : "a2v", "_gate_adaln_single")), width, 1));
  if (config.keyframes_abs_pos_embedding && !audio) {
    KINORA_ASSIGN_OR_RETURN(m.marker, LoadMarker(weights, width));
  }
  if (config.has_prompt_adaln()) {
    KINORA_ASSIGN_OR_RETURN(AdaLn prompt, AdaLn::Load(weights.Under(absl::StrCat(prefix, "prompt_adaln_single")),
                                                      modality.context_width, 2));
    m.prompt = std::make_unique<AdaLn>(std::move(prompt));
  }
  if (config.caption_projection) {
    KINORA_ASSIGN_OR_RETURN(m.caption, LoadProjection(weights.Under(absl::StrCat(prefix, "caption_projection")),
                                                      config.caption_channels, modality.context_width));
  }
  return m;
}

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(const WeightLoader& weights,
                                                               const TransformerConfig& config, Modalities modalities) {
  if (config.rope_layout != RopeLayout::kSplit) {
    return absl::UnimplementedError("transformer.rope_type: only \"split\" is supported");
  }
  std::unique_ptr<Transformer> t(new Transformer(config));
  KINORA_ASSIGN_OR_RETURN(t->video_, LoadModality(weights, config, config.video, /*audio=*/false, modalities));
  KINORA_ASSIGN_OR_RETURN(t->audio_, LoadModality(weights, config, config.audio, /*audio=*/true, modalities));
  t->blocks_.reserve(config.layers);
  for (int i = 0; i < config.layers; ++i) {
    KINORA_ASSIGN_OR_RETURN(
        AvBlock block, AvBlock::Load(weights.Under(absl::StrCat("transformer_blocks.", i)), config, i, modalities));
    t->blocks_.push_back(std::move(block));
  }
  return t;
}

namespace {

// Copies host values to a device tensor from `temp`.
Tensor Upload(Exec& exec, ArenaScope& temp, const std::vector<float>& host) {
  Tensor t = temp.Alloc(DType::kF32, {static_cast<int64_t>(host.size())});
  exec.ops.stream().CopyFromHost(host.data(), t);
  return t;
}

// Copies params [steps·rows, …] to columns [from, to) of the tables, one row per step.
void Place(Exec& exec, const Tensor& params, const Tensor& tables, int64_t from, int64_t to) {
  exec.ops.stream().Copy(params.Reshape({tables.dim(0), to - from}), tables.Columns(from, to));
}

}  // namespace

void Transformer::FillBlockTables(Exec& exec, const Modality& layers, const Tensor& times, const Offsets& o,
                                  const Tensor& tables) const {
  const int64_t steps = tables.dim(0), k = times.elements() / steps, width = layers.output_table.tensor().width();
  ArenaScope scope(exec.arena);
  Tensor params = scope.Alloc(DType::kF32, {steps * k, config_.modulation_rows() * width});
  Tensor embedded = scope.Alloc(DType::kF32, {steps, k * width});
  layers.adaln.Forward(exec, times, params, embedded.Reshape({steps * k, width}));
  Place(exec, params, tables, o.block, o.prompt);
  for (int64_t j = 0; j < 2 * k; ++j) {  // the same embedding under the output head's shift and scale
    exec.ops.stream().Copy(embedded.Columns(j / 2 * width, (j / 2 + 1) * width),
                           tables.Columns(o.output + j * width, o.output + (j + 1) * width));
  }
}

void Transformer::FillModality(Exec& exec, const Modality& layers, const ModalityConfig& modality,
                               const std::vector<const ModalitySigmas*>& own,
                               const std::vector<const ModalitySigmas*>& other, int64_t begin, Tensor tables) const {
  const int64_t steps = static_cast<int64_t>(own.size()), k = static_cast<int64_t>(own[0]->tokens.size());
  if (k == 0) return;
  const Offsets o = OffsetsOf(modality, k, begin);
  std::vector<float> token_times, scalar_times, gate_times;
  for (int64_t i = 0; i < steps; ++i) {
    for (float sigma : own[i]->tokens) token_times.push_back(sigma * static_cast<float>(config_.timestep_scale));
    scalar_times.push_back(own[i]->scalar * static_cast<float>(config_.timestep_scale));
    gate_times.push_back(other[i]->scalar * static_cast<float>(config_.av_timestep_scale));
  }
  ArenaScope temp(exec.arena);
  const Tensor times = Upload(exec, temp, token_times);
  FillBlockTables(exec, layers, times, o, tables);
  if (!other[0]->tokens.empty()) {
    ArenaScope scope(exec.arena);
    Tensor params = scope.Alloc(DType::kF32, {steps * k, 4 * modality.width()});
    layers.cross.Forward(exec, times, params, Tensor());
    Place(exec, params, tables, o.cross, o.cross_gate);
    Tensor gate = scope.Alloc(DType::kF32, {steps, modality.width()});
    layers.cross_gate.Forward(exec, Upload(exec, temp, gate_times), gate, Tensor());
    Place(exec, gate, tables, o.cross_gate, o.output);
  }
  if (!config_.cross_attention_adaln) return;
  if (layers.prompt != nullptr) {
    ArenaScope scope(exec.arena);
    Tensor params = scope.Alloc(DType::kF32, {steps, 2 * modality.context_width});
    layers.prompt->Forward(exec, Upload(exec, scope, scalar_times), params, Tensor());
    Place(exec, params, tables, o.prompt, o.cross);
  } else {
    exec.ops.Fill(0.0f, tables.Columns(o.prompt, o.cross));
  }
}

void Transformer::FillTables(Exec& exec, const std::vector<StepSigmas>& steps, Tensor tables) const {
  std::vector<const ModalitySigmas*> video, audio;
  for (const StepSigmas& step : steps) {
    video.push_back(&step.video);
    audio.push_back(&step.audio);
  }
  const int64_t video_k = static_cast<int64_t>(steps[0].video.tokens.size());
  FillModality(exec, video_, config_.video, video, audio, 0, tables);
  FillModality(exec, audio_, config_.audio, audio, video, OffsetsOf(config_.video, video_k, 0).end, tables);
}

void Transformer::ProjectContexts(Exec& exec, const PerModality<Tensor>& from, const PerModality<Tensor>& to) const {
  const auto project = [&](const Projection& projection, const Tensor& from, const Tensor& to) {
    if (!to.defined()) return;
    if (!config_.caption_projection) {
      exec.ops.stream().Copy(from, to);
      return;
    }
    ArenaScope temp(exec.arena);
    Tensor hidden = temp.Alloc(exec.dtype, to.shape());
    exec.ops.Matmul(from, projection.in, {.activation = Activation::kGeluTanh}, hidden);
    exec.ops.Matmul(hidden, projection.out, {}, to);
  };
  project(video_.caption, from.video, to.video);
  project(audio_.caption, from.audio, to.audio);
}

void Transformer::FillPromptCaches(Exec& exec, PerModality<BlockInputs>& in) const {
  for (const AvBlock& block : blocks_) block.FillPromptCaches(exec, in);
}

void Transformer::Enter(Exec& exec, const Modality& layers, const Passes& passes, const BlockInputs& in,
                        const Tensor& latent, Tensor x) const {
  const int64_t rows = latent.rows();
  exec.ops.Matmul(latent, layers.patchify, {}, x.Rows(0, rows));
  if (in.marked_rows > 0) {
    const Tensor marked = x.Rows(0, in.marked_rows);
    exec.ops.Affine(marked, layers.marker.ones, layers.marker.embedding, marked);
  }
  for (int pass = 1; pass < passes.count; ++pass) {
    exec.ops.stream().Copy(x.Rows(0, rows), x.Rows(pass * rows, (pass + 1) * rows));
  }
}

void Transformer::Leave(Exec& exec, const Modality& layers, const ModalityState& state, Tensor velocity) const {
  const Modulation modulation{state.in.tables.output, layers.output_table, state.in.row};
  exec.ops.ModulatedLayerNorm(state.x, {modulation, /*scale_slot=*/1, /*shift_slot=*/0},
                              static_cast<float>(config_.norm_eps), state.normed);
  exec.ops.Matmul(state.normed, layers.output, {}, velocity);
}

namespace {

// Returns the number of blocks before the first one that is perturbed in a modality that is updated: up to there the
// STG pass equals the conditional one. 0: the passes are not on this rank together, or run separately.
size_t SharedBlocks(const Passes& passes, const PerModality<ModalityUse>& use, size_t layers) {
  if (passes.perturbed < 0 || passes.cond < 0) return 0;
  int first = static_cast<int>(layers);
  const auto lower = [&](ModalityUse modality_use, const std::vector<int>& blocks) {
    if (modality_use != ModalityUse::kUpdated) return;
    for (const int block : blocks) first = std::min(first, block);
  };
  lower(use.video, passes.perturbed_blocks.video);
  lower(use.audio, passes.perturbed_blocks.audio);
  return static_cast<size_t>(first);
}

Passes WithoutPerturbed(const Passes& passes) {
  Passes others = passes;
  --others.count;
  std::copy(passes.context.begin() + passes.perturbed + 1, passes.context.end(),
            others.context.begin() + passes.perturbed);
  if (passes.isolated > passes.perturbed) --others.isolated;
  others.perturbed = others.cond = -1;
  return others;
}

// Returns the rows of the first passes.
ModalityState First(int passes, const ModalityState& state) {
  const auto first = [&](const Tensor& t) { return t.defined() ? t.Rows(0, passes * state.in.rows) : t; };
  return {state.in, first(state.x), first(state.normed)};
}

// Gives the STG pass its own rows. t: [passes·rows, width]; on entry, its first rows are those of the other passes.
// Moves the passes after the STG pass up, and copies the conditional pass.
void SeparatePerturbed(Exec& exec, const Passes& passes, int64_t rows, const Tensor& t) {
  if (!t.defined()) return;
  const auto of = [&](int pass) { return t.Rows(pass * rows, (pass + 1) * rows); };
  for (int pass = passes.count - 1; pass > passes.perturbed; --pass) exec.ops.stream().Copy(of(pass - 1), of(pass));
  exec.ops.stream().Copy(of(passes.cond), of(passes.perturbed));
}

// Taps state.x with the rows of all passes, also where it has none of the STG pass.
void TapPasses(Exec& exec, const std::string& name, const Passes& passes, const ModalityState& state) {
  const Tensor& x = state.x;
  const int64_t rows = passes.count * state.in.rows;
  if (!x.defined() || x.rows() == rows) return Tap(exec, name, x);
  ArenaScope temp(exec.arena);
  const Tensor whole = temp.Alloc(x.dtype(), {rows, x.width()});
  exec.ops.stream().Copy(x, whole.Rows(0, x.rows()));
  SeparatePerturbed(exec, passes, state.in.rows, whole);
  Tap(exec, name, whole);
}

}  // namespace

struct Transformer::BlockRange {
  size_t begin, end;
  const Passes& passes;  // that run through these blocks
};

void Transformer::RunBlocks(Exec& exec, const BlockRange& range, const Passes& whole,
                            const PerModality<ModalityUse>& use, const ModalityState& video,
                            const ModalityState& audio) const {
  for (size_t i = range.begin; i < range.end; ++i) {
    const InBlock block(exec, static_cast<int64_t>(i));
    blocks_[i].Forward(exec, range.passes, use, i + 1 < blocks_.size() ? &blocks_[i + 1] : nullptr, video, audio);
    if (exec.taps != nullptr) {
      TapPasses(exec, absl::StrCat("block", i, ".video"), whole, video);
      TapPasses(exec, absl::StrCat("block", i, ".audio"), whole, audio);
    }
  }
}

void Transformer::Forward(Exec& exec, const Passes& passes, const PerModality<ModalityUse>& use,
                          const PerModality<BlockInputs>& in, const PerModality<Tensor>& latent,
                          const PerModality<Tensor>& velocity) const {
  ArenaScope temp(exec.arena);
  const size_t shared = SharedBlocks(passes, use, blocks_.size());
  const Passes first = shared > 0 ? WithoutPerturbed(passes) : passes;  // that enter the first block
  const auto enter = [&](const Modality& layers, const ModalityConfig& config, ModalityUse modality_use,
                         const BlockInputs& inputs, const Tensor& z) {
    if (modality_use == ModalityUse::kAbsent) return ModalityState{inputs, Tensor(), Tensor()};
    const Shape shape{passes.count * inputs.rows, config.width()};
    ModalityState entered{inputs, temp.Alloc(exec.dtype, shape), Tensor()};
    if (modality_use == ModalityUse::kUpdated) entered.normed = temp.Alloc(exec.dtype, shape);
    Enter(exec, layers, first, inputs, z, entered.x);
    return entered;
  };
  const ModalityState video = enter(video_, config_.video, use.video, in.video, latent.video);
  const ModalityState audio = enter(audio_, config_.audio, use.audio, in.audio, latent.audio);
  if (!blocks_.empty()) blocks_.front().Enter(exec, First(first.count, video), First(first.count, audio));
  if (shared > 0) {
    const InTracePlace place({.passes = passes.shared_names});
    RunBlocks(exec, {0, shared, first}, passes, use, First(first.count, video), First(first.count, audio));
    for (const ModalityState* state : {&video, &audio}) {
      SeparatePerturbed(exec, passes, state->in.rows, state->x);
      SeparatePerturbed(exec, passes, state->in.rows, state->normed);
    }
  }
  RunBlocks(exec, {shared, blocks_.size(), passes}, passes, use, video, audio);
  const auto leave = [&](const Modality& layers, ModalityUse modality_use, const ModalityState& state,
                         const Tensor& to) {
    if (modality_use == ModalityUse::kUpdated && to.defined()) Leave(exec, layers, state, to);
  };
  leave(video_, use.video, video, velocity.video);
  leave(audio_, use.audio, audio, velocity.audio);
}

}  // namespace kinora

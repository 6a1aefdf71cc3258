#include "engine/pipeline/velocity_model.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/trace.h"
#include "engine/diffusion/latent_state.h"
#include "engine/parallel/redistribute.h"

namespace kinora {
namespace {

Tensor Upload(Exec& exec, DType dtype, const Shape& shape, const void* host) {
  Tensor t = exec.arena.Alloc(dtype, shape);
  exec.ops.stream().CopyFromHost(host, t);
  return t;
}

ModalitySigmas SigmasAt(float sigma, const DistinctMask& mask) {
  ModalitySigmas s{.tokens = {}, .scalar = sigma};
  for (float m : mask.values) s.tokens.push_back(m * sigma);
  return s;
}

int64_t Tokens(const ModalityInputs& inputs) {
  return inputs.positions.empty() ? 0 : static_cast<int64_t>(inputs.positions[0].size());
}

}  // namespace

const Mesh& MeshOfStage(const Mesh& mesh, const TransformerConfig& config, size_t passes) {
  for (const int factor : {4, 2}) {
    const Mesh* folded = passes == 1 ? mesh.Folded(factor) : nullptr;
    if (folded == nullptr) continue;
    if (config.video.heads % (folded->shape().tensor * folded->shape().tokens) == 0) return *folded;
  }
  return mesh;
}

absl::StatusOr<VelocityModel> VelocityModel::Prepare(Exec& exec, const Transformer& transformer,
                                                     const VelocityInputs& inputs) {
  const TransformerConfig& config = transformer.config();
  const int64_t heads = config.video.heads / exec.mesh.tensor().size();
  if (heads % exec.mesh.tokens().size() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("tokens=", exec.mesh.tokens().size(), ": must divide the ", heads, " attention heads of a rank"));
  }
  VelocityModel model(transformer);
  model.shape_.tokens = inputs.of.Map(Tokens);
  model.shape_.biased = inputs.of.Map([](const ModalityInputs& m) { return m.self_bias.defined(); });
  model.shape_.perturbed_blocks = inputs.of.Map([](const ModalityInputs& m) { return m.perturbed_blocks; });
  if (config.keyframes_abs_pos_embedding) model.shape_.marked_tokens = inputs.of.video.marked_tokens;
  model.shape_.passes = inputs.passes;
  model.shape_.share_blocks = inputs.share_blocks;
  model.AssignPasses(exec, inputs);
  model.PrepareTokens(exec, inputs.of.video, /*split=*/true, model.rows_.video, model.in_.video);
  model.PrepareTokens(exec, inputs.of.audio, /*split=*/false, model.rows_.audio, model.in_.audio);
  model.PrepareRopes(exec, inputs);
  model.PrepareContexts(exec, inputs);
  model.PrepareTables(exec, inputs.of);
  return model;
}

// Each rank gets an equally long, contiguous part of the passes. The end is padded with copies of the last pass, or
// with conditional passes if the last is an STG pass, because a rank may have only one of those. Padding results are
// never read.
void VelocityModel::AssignPasses(const Exec& exec, const VelocityInputs& inputs) {
  const int all = passes(), groups = exec.mesh.guidance().size(), each = (all + groups - 1) / groups;
  local_.count = each;
  local_.perturbed_blocks = shape_.perturbed_blocks;
  for (int i = 0; i < each; ++i) {
    const int index = exec.mesh.guidance().rank() * each + i;
    Pass pass = inputs.passes[std::min(index, all - 1)];
    if (index >= all && pass == Pass::kPerturbed) pass = Pass::kCond;
    local_list_.push_back(pass);
    if (pass == Pass::kPerturbed) local_.perturbed = i;
    if (pass == Pass::kCond && shape_.share_blocks) local_.cond = i;
    if (pass == Pass::kIsolated && local_.isolated < 0) local_.isolated = i;
  }
  const auto name = [](std::string* out, Pass pass) { out->append(PassName(pass)); };
  traced_passes_ = TraceText(absl::StrJoin(local_list_, ",", name));
  PassList shared = local_list_;
  std::erase(shared, Pass::kPerturbed);
  local_.shared_names = TraceText(absl::StrJoin(shared, ",", name));
}

// split: divide the tokens among the ranks of the token group, in whole key chunks.
void VelocityModel::PrepareTokens(Exec& exec, const ModalityInputs& inputs, bool split, int64_t& rows,
                                  BlockInputs& in) const {
  const Communicator& group = exec.mesh.tokens();
  in.tokens = rows = in.rows = in.valid_rows = Tokens(inputs);
  in.split = split;
  if (in.tokens == 0) return;
  if (split) {
    rows = (in.tokens + kKeyChunks - 1) / kKeyChunks * kKeyChunks;
    in.rows = rows / group.size();
    in.valid_rows = std::clamp<int64_t>(in.tokens - group.rank() * in.rows, 0, in.rows);
    in.marked_rows = std::clamp<int64_t>(shape_.marked_tokens - group.rank() * in.rows, 0, in.rows);
  }
  if (inputs.self_bias.defined()) {  // padding columns are never keys; padding rows are never read
    in.self_bias = exec.arena.Alloc(DType::kF32, {rows, rows});
    exec.ops.Fill(0.0f, in.self_bias);
    exec.ops.stream().Copy(inputs.self_bias, in.self_bias.Rows(0, in.tokens).Columns(0, in.tokens));
  }
}

// Sets the tables of this rank's tokens and heads.
void VelocityModel::PrepareRopes(Exec& exec, const VelocityInputs& inputs) {
  const TransformerConfig& config = transformer_->config();
  const Communicator& heads = exec.mesh.tensor();
  const std::vector<double> longest = {std::max(config.video.max_positions[0], config.audio.max_positions[0])};
  std::vector<RopeTable> wanted;
  std::vector<Rope*> places;
  const auto want = [&](const ModalityInputs& of, const ModalityConfig& modality, BlockInputs& in) {
    if (in.tokens == 0) return;
    const int64_t first = in.split ? exec.mesh.tokens().rank() * in.rows : 0;
    const auto add = [&](int64_t width, const std::vector<double>& max_positions,
                         std::vector<std::vector<float>> positions, Rope& place) {
      const int64_t columns = width / 2 / heads.size();
      wanted.push_back({.shape = {width, max_positions, config.rope_theta, config.rope_double_precision},
                        .positions = std::move(positions),
                        .first_token = first,
                        .tokens = in.rows,
                        .first_column = heads.rank() * columns,
                        .columns = columns});
      places.push_back(&place);
    };
    add(modality.width(), modality.max_positions, of.positions, in.rope);
    add(config.audio.width(), longest, {of.positions[0]}, in.cross_rope);
  };
  want(inputs.of.video, config.video, in_.video);
  want(inputs.of.audio, config.audio, in_.audio);
  RopeTables unkept;
  const RopeTables::Stage stage = (inputs.ropes != nullptr ? *inputs.ropes : unkept).Get(exec, std::move(wanted));
  for (size_t i = 0; i < places.size(); ++i) *places[i] = stage.tables[i];
  if (stage.kept) kept_ropes_ = stage.tables.front().cos.raw();
}

void VelocityModel::PrepareContexts(Exec& exec, const VelocityInputs& inputs) {
  absl::InlinedVector<const TextContext*, 2> prompts;
  for (int i = 0; i < local_.count; ++i) {
    const TextContext* prompt = local_list_[i] == Pass::kUncond ? &inputs.uncond : &inputs.cond;
    if (prompts.empty() || prompts.back() != prompt) prompts.push_back(prompt);
    local_.context[i] = static_cast<int8_t>(prompts.size() - 1);
  }
  local_.contexts = static_cast<int>(prompts.size());
  const TransformerConfig& config = transformer_->config();
  const auto project = [&](const ModalityConfig& modality, BlockInputs& in, Tensor TextContext::*of) {
    const int64_t rows = (inputs.cond.*of).rows();
    in.context = exec.arena.Alloc(exec.dtype, {local_.contexts * rows, modality.context_width});
    for (int i = 0; i < local_.contexts; ++i) {
      TextContext to;
      to.*of = in.context.Rows(i * rows, (i + 1) * rows);
      transformer_->ProjectContexts(exec, *prompts[i], to);
    }
  };
  if (in_.video.tokens > 0) project(config.video, in_.video, &TextContext::video);
  if (in_.audio.tokens > 0) project(config.audio, in_.audio, &TextContext::audio);
  if (transformer_->prompt_is_constant()) transformer_->FillPromptCaches(exec, in_);
}

void VelocityModel::PrepareTables(Exec& exec, const PerModality<ModalityInputs>& inputs) {
  const auto masks =
      inputs.Map([](const ModalityInputs& m) { return Tokens(m) > 0 ? Distinguish(m.mask) : DistinctMask{}; });
  const auto upload = [&](const DistinctMask& mask, int64_t begin, BlockInputs& in) {
    if (mask.row.empty()) return;
    std::vector<int32_t> row(in.rows, 0);
    for (int64_t i = 0; i < in.valid_rows; ++i) row[i] = mask.row[begin + i];
    in.row = Upload(exec, DType::kI32, {in.rows}, row.data());
  };
  upload(masks.video, exec.mesh.tokens().rank() * in_.video.rows, in_.video);
  upload(masks.audio, 0, in_.audio);
  KINORA_CHECK_EQ(inputs.video.sigmas.size(), inputs.audio.sigmas.size());
  std::vector<StepSigmas> steps;
  for (size_t i = 0; i < inputs.video.sigmas.size(); ++i) {
    steps.push_back({SigmasAt(inputs.video.sigmas[i], masks.video), SigmasAt(inputs.audio.sigmas[i], masks.audio)});
  }
  shape_.mask_values = masks.Map([](const DistinctMask& m) { return static_cast<int64_t>(m.values.size()); });
  const int64_t count = static_cast<int64_t>(steps.size()), floats = transformer_->TableFloats(shape_.mask_values);
  tables_ = exec.arena.Alloc(DType::kF32, {RoomForSteps(count), floats});
  current_ = exec.arena.Alloc(DType::kF32, {1, floats});
  transformer_->FillTables(exec, steps, tables_.Rows(0, count));
  const PerModality<StepTables> tables = transformer_->TablesIn(current_, shape_.mask_values);
  in_.video.tables = tables.video;
  in_.audio.tables = tables.audio;
}

void VelocityModel::SelectStep(Exec& exec, const Tensor& step) const {
  exec.ops.GatherRows(tables_, step, 1.0f, current_);
}

void VelocityModel::Forward(Exec& exec, const PerModality<ModalityUse>& use, const PerModality<Tensor>& z,
                            const PerModality<Tensor>& v) const {
  const InTracePlace place({.passes = traced_passes_});
  ArenaScope temp(exec.arena);
  // Results of this rank's passes for all tokens: video, then audio, in one tensor, so that one gather suffices.
  const auto floats = [&](ModalityUse of, int64_t rows, const Tensor& whole) {
    return of == ModalityUse::kUpdated && whole.defined() ? local_.count * rows * whole.width() : 0;
  };
  const int64_t video_floats = floats(use.video, rows_.video, v.video);
  const int64_t audio_floats = floats(use.audio, rows_.audio, v.audio), all_floats = video_floats + audio_floats;
  const auto part = [](const Tensor& of, int64_t begin, int64_t count, const Tensor& like) {
    return count == 0 ? Tensor() : of.Rows(begin, begin + count).Reshape({count / like.width(), like.width()});
  };
  Tensor made = temp.Alloc(DType::kF32, {all_floats, 1});
  const Tensor whole_video = part(made, 0, video_floats, v.video);
  PerModality<Tensor> local{whole_video, part(made, video_floats, audio_floats, v.audio)};
  const bool sliced = video_floats > 0 && in_.video.rows < rows_.video;
  if (sliced) local.video = temp.Alloc(DType::kF32, {local_.count * in_.video.rows, v.video.width()});
  const int64_t begin = exec.mesh.tokens().rank() * in_.video.rows;
  const Tensor video = in_.video.tokens == 0 ? Tensor() : z.video.Rows(begin, begin + in_.video.rows);
  transformer_->Forward(exec, local_, use, in_, {video, z.audio}, local);
  if (sliced) AllGatherTokens(exec, local.video, local_.count, whole_video);

  const int64_t ranks = exec.mesh.guidance().size();
  if (ranks > 1) {
    const Tensor mine = made;
    made = temp.Alloc(DType::kF32, {ranks * all_floats, 1});
    exec.mesh.guidance().AllGather(mine, made, exec.ops.stream());
  }
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t first = rank * all_floats;
    if (video_floats > 0) Deliver(exec, rank, part(made, first, video_floats, v.video), in_.video.tokens, v.video);
    if (audio_floats > 0) {
      Deliver(exec, rank, part(made, first + video_floats, audio_floats, v.audio), in_.audio.tokens, v.audio);
    }
  }
}

// Copies the results of one rank of the guidance group without padding tokens and padding passes.
// made: [the rank's passes·rows, channels] -> whole: [passes·tokens, channels]
void VelocityModel::Deliver(Exec& exec, int64_t rank, const Tensor& made, int64_t tokens, const Tensor& whole) const {
  const int64_t first = rank * local_.count, count = std::min<int64_t>(local_.count, passes() - first);
  const int64_t rows = made.rows() / local_.count;
  if (rows == tokens && count > 0) {
    exec.ops.stream().Copy(made.Rows(0, count * rows), whole.Rows(first * rows, (first + count) * rows));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    exec.ops.stream().Copy(made.Rows(i * rows, i * rows + tokens),
                           whole.Rows((first + i) * tokens, (first + i + 1) * tokens));
  }
}

}  // namespace kinora

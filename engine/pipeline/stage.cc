#include "engine/pipeline/stage.h"

#include <algorithm>
#include <bit>
#include <map>

#include "absl/strings/str_cat.h"
#include "engine/model/rope.h"
#include "engine/parallel/redistribute.h"

namespace kinora {
namespace {

Tensor Upload(Exec& exec, DType dtype, const Shape& shape, const void* host) {
  Tensor t = exec.arena.Alloc(dtype, shape);
  exec.ops.stream().CopyFromHost(host, t);
  return t;
}

// The table of the tokens [begin, end) and this rank's heads; positions past the clip are those of its last token.
Rope UploadRope(Exec& exec, const RopeShape& shape, const std::vector<std::vector<float>>& positions, int64_t begin,
                int64_t end) {
  const Communicator& group = exec.mesh.tensor();
  const int64_t columns = shape.width / 2 / group.size(), tokens = end - begin;
  std::vector<float> cos(exec.ops.dry() ? 0 : tokens * columns), sin(cos.size());
  if (!exec.ops.dry()) {
    std::vector<std::vector<float>> part(positions.size());
    for (size_t axis = 0; axis < positions.size(); ++axis) {
      for (int64_t i = begin; i < end; ++i) {
        part[axis].push_back(positions[axis][std::min<int64_t>(i, static_cast<int64_t>(positions[axis].size()) - 1)]);
      }
    }
    FillRopeTable(shape, part, group.rank() * columns, (group.rank() + 1) * columns, cos.data(), sin.data());
  }
  return {Upload(exec, DType::kF32, {tokens, columns}, cos.data()),
          Upload(exec, DType::kF32, {tokens, columns}, sin.data())};
}

// Distinct mask values in order of appearance, and which one each token has.
struct DistinctTimesteps {
  std::vector<float> values;  // padded with its last value to a power of two, so that few graph shapes occur
  std::vector<int32_t> row;   // empty if there is one value
};
DistinctTimesteps Distinguish(const std::vector<float>& mask) {
  DistinctTimesteps d;
  if (mask.empty()) return {{1.0f}, {}};
  std::map<float, int32_t> seen;
  for (float m : mask) {
    const auto [it, added] = seen.try_emplace(m, static_cast<int32_t>(d.values.size()));
    if (added) d.values.push_back(m);
    d.row.push_back(it->second);
  }
  if (d.values.size() == 1) d.row.clear();
  d.values.resize(std::bit_ceil(d.values.size()), d.values.back());
  return d;
}

ModalitySigmas SigmasAt(float sigma, const DistinctTimesteps& timesteps) {
  ModalitySigmas s{.scalar = sigma};
  for (float m : timesteps.values) s.tokens.push_back(m * sigma);
  return s;
}

}  // namespace

absl::StatusOr<Stage> Stage::Prepare(Exec& exec, const Transformer& transformer, const StageSpec& spec) {
  const int64_t heads = transformer.config().video.heads / exec.mesh.tensor().size();
  if (heads % exec.mesh.tokens().size() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("tokens=", exec.mesh.tokens().size(), ": must divide the ", heads, " attention heads of a rank"));
  }
  Stage stage(transformer);
  stage.AssignPasses(exec, spec);
  stage.PrepareTokens(exec, spec);
  stage.PrepareContexts(exec, spec);
  stage.PrepareTables(exec, spec);
  return stage;
}

// A rank holds a contiguous part of the passes, as many as any other. What is missing at the end is filled up with
// copies of the last pass, whose results nobody reads; an STG pass, of which a rank may have one, is filled up with
// conditional ones.
void Stage::AssignPasses(const Exec& exec, const StageSpec& spec) {
  passes_ = static_cast<int>(spec.passes.size());
  const int groups = exec.mesh.guidance().size(), each = (passes_ + groups - 1) / groups;
  local_.count = each;
  local_.perturbed_video_blocks = spec.perturbed_video_blocks;
  local_.perturbed_audio_blocks = spec.perturbed_audio_blocks;
  for (int i = 0; i < each; ++i) {
    const int index = exec.mesh.guidance().rank() * each + i;
    Pass pass = spec.passes[std::min(index, passes_ - 1)];
    if (index >= passes_ && pass == Pass::kPerturbed) pass = Pass::kCond;
    local_list_.push_back(pass);
    if (pass == Pass::kPerturbed) local_.perturbed = i;
    if (pass == Pass::kIsolated && local_.isolated < 0) local_.isolated = i;
  }
}

void Stage::PrepareTokens(Exec& exec, const StageSpec& spec) {
  const TransformerConfig& config = transformer_->config();
  const Communicator& group = exec.mesh.tokens();
  const int64_t tokens = static_cast<int64_t>(spec.video_positions[0].size());
  padded_tokens_ = (tokens + kKeyChunks - 1) / kKeyChunks * kKeyChunks;
  const int64_t rows = padded_tokens_ / group.size(), begin = group.rank() * rows;
  video_.tokens = tokens;
  video_.rows = rows;
  video_.valid_rows = std::clamp<int64_t>(tokens - begin, 0, rows);
  video_.split = true;
  audio_.tokens = audio_.rows = audio_.valid_rows = static_cast<int64_t>(spec.audio_positions[0].size());

  const auto shape = [&](int64_t width, const std::vector<double>& max_positions) {
    return RopeShape{width, max_positions, config.rope_theta, config.rope_double_precision};
  };
  const RopeShape cross =
      shape(config.audio.width(), {std::max(config.video.max_positions[0], config.audio.max_positions[0])});
  video_.rope = UploadRope(exec, shape(config.video.width(), config.video.max_positions), spec.video_positions, begin,
                           begin + rows);
  audio_.rope =
      UploadRope(exec, shape(config.audio.width(), config.audio.max_positions), spec.audio_positions, 0, audio_.rows);
  video_.cross_rope = UploadRope(exec, cross, {spec.video_positions[0]}, begin, begin + rows);
  audio_.cross_rope = UploadRope(exec, cross, {spec.audio_positions[0]}, 0, audio_.rows);

  if (spec.video_self_bias.defined()) {  // columns and rows of padding are never keys and never read
    video_.self_bias = exec.arena.Alloc(DType::kF32, {padded_tokens_, padded_tokens_});
    exec.ops.Fill(0.0f, video_.self_bias);
    exec.ops.stream().Copy(spec.video_self_bias, video_.self_bias.Rows(0, tokens).Columns(0, tokens));
  }
}

void Stage::PrepareContexts(Exec& exec, const StageSpec& spec) {
  absl::InlinedVector<const PromptContext*, 2> prompts;
  for (int i = 0; i < local_.count; ++i) {
    const PromptContext* prompt = local_list_[i] == Pass::kUncond ? &spec.uncond : &spec.cond;
    if (prompts.empty() || prompts.back() != prompt) prompts.push_back(prompt);
    local_.context[i] = static_cast<int8_t>(prompts.size() - 1);
  }
  local_.contexts = static_cast<int>(prompts.size());
  const TransformerConfig& config = transformer_->config();
  const int64_t rows = spec.cond.video.rows();
  video_.context = exec.arena.Alloc(exec.dtype, {local_.contexts * rows, config.video.context_width});
  audio_.context = exec.arena.Alloc(exec.dtype, {local_.contexts * rows, config.audio.context_width});
  for (int i = 0; i < local_.contexts; ++i) {
    transformer_->ProjectContexts(exec, prompts[i]->video, prompts[i]->audio,
                                  video_.context.Rows(i * rows, (i + 1) * rows),
                                  audio_.context.Rows(i * rows, (i + 1) * rows));
  }
  if (transformer_->prompt_is_constant()) transformer_->FillPromptCaches(exec, video_, audio_);
}

void Stage::PrepareTables(Exec& exec, const StageSpec& spec) {
  const DistinctTimesteps video = Distinguish(spec.video_mask), audio = Distinguish(spec.audio_mask);
  if (!video.row.empty()) {
    const int64_t begin = exec.mesh.tokens().rank() * video_.rows;
    std::vector<int32_t> row(video_.rows, 0);
    for (int64_t i = 0; i < video_.valid_rows; ++i) row[i] = video.row[begin + i];
    video_.row = Upload(exec, DType::kI32, {video_.rows}, row.data());
  }
  if (!audio.row.empty()) audio_.row = Upload(exec, DType::kI32, {audio_.rows}, audio.row.data());
  std::vector<StepSigmas> steps;
  for (size_t i = 0; i < spec.video_sigmas.size(); ++i) {
    steps.push_back({SigmasAt(spec.video_sigmas[i], video), SigmasAt(spec.audio_sigmas[i], audio)});
  }
  const int64_t video_k = static_cast<int64_t>(video.values.size()),
                audio_k = static_cast<int64_t>(audio.values.size());
  const int64_t floats = transformer_->TableFloats(video_k, audio_k);
  tables_ = exec.arena.Alloc(DType::kF32, {static_cast<int64_t>(steps.size()), floats});
  current_ = exec.arena.Alloc(DType::kF32, {1, floats});
  transformer_->FillTables(exec, steps, tables_);
  video_.tables = transformer_->VideoTables(current_, video_k, audio_k);
  audio_.tables = transformer_->AudioTables(current_, video_k, audio_k);
}

void Stage::SetStep(Exec& exec, int64_t i) const { exec.ops.stream().Copy(tables_.Rows(i, i + 1), current_); }

void Stage::Forward(Exec& exec, Updates updates, const Tensor& z_video, const Tensor& z_audio, Tensor v_video,
                    Tensor v_audio) const {
  ArenaScope temp(exec.arena);
  const int64_t begin = exec.mesh.tokens().rank() * video_.rows;
  Tensor video = temp.Alloc(DType::kF32, {local_.count * video_.rows, v_video.width()});
  Tensor audio = temp.Alloc(DType::kF32, {local_.count * audio_.rows, v_audio.width()});
  transformer_->Forward(exec, local_, updates, video_, audio_, z_video.Rows(begin, begin + video_.rows), z_audio, video,
                        audio);
  if (updates.video) GatherVideo(exec, video, v_video);
  if (updates.audio) GatherAudio(exec, audio, v_audio);
}

// local: [this rank's passes·rows, channels] -> whole: [passes·tokens, channels]: over the tokens, then over the
// passes.
void Stage::GatherVideo(Exec& exec, const Tensor& local, Tensor whole) const {
  ArenaScope temp(exec.arena);
  Communicator& guidance = exec.mesh.guidance();
  const int64_t channels = local.width(), tokens = video_.tokens;
  Tensor passes = temp.Alloc(DType::kF32, {local_.count, padded_tokens_, channels});
  AllGatherTokens(exec, local, local_.count, passes);
  if (guidance.size() > 1) {
    Tensor all = temp.Alloc(DType::kF32, {local_.count * guidance.size(), padded_tokens_, channels});
    guidance.AllGather(passes, all, exec.ops.stream());
    passes = all;
  }
  for (int64_t pass = 0; pass < passes_; ++pass) {  // without the padding
    exec.ops.stream().Copy(passes.Rows(pass, pass + 1).As2D().Rows(0, tokens),
                           whole.Rows(pass * tokens, (pass + 1) * tokens));
  }
}

void Stage::GatherAudio(Exec& exec, const Tensor& local, Tensor whole) const {
  ArenaScope temp(exec.arena);
  Communicator& guidance = exec.mesh.guidance();
  Tensor all = local;
  if (guidance.size() > 1) {
    all = temp.Alloc(DType::kF32, {local.rows() * guidance.size(), local.width()});
    guidance.AllGather(local, all, exec.ops.stream());
  }
  exec.ops.stream().Copy(all.Rows(0, whole.rows()), whole);
}

}  // namespace kinora

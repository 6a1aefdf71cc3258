#include "engine/model/duration_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {

absl::StatusOr<DurationHead::Source> DurationHead::LoadSource(WeightLoader& weights, const char* name, int64_t width,
                                                              int64_t hidden) {
  Source source;
  KINORA_ASSIGN_OR_RETURN(source.input,
                          weights.LoadWeight({absl::StrCat(name, "_input_proj")}, {.out = hidden, .in = width}));
  KINORA_ASSIGN_OR_RETURN(source.mark, weights.LoadTensor(absl::StrCat(name, "_modality_emb"), {hidden}));
  return source;
}

absl::StatusOr<DurationHead> DurationHead::Load(WeightLoader weights, const DurationHeadConfig& config) {
  DurationHead head;
  head.config_ = config;
  const int64_t hidden = config.hidden;
  KINORA_ASSIGN_OR_RETURN(head.video_, LoadSource(weights, "video", config.video_width, hidden));
  KINORA_ASSIGN_OR_RETURN(head.audio_, LoadSource(weights, "audio", config.audio_width, hidden));
  WeightLoader pooler = weights.Under("attention_pooler"), attention = pooler.Under("cross_attn");
  KINORA_ASSIGN_OR_RETURN(head.queries_, pooler.LoadTensor("query_tokens", {config.queries, hidden}));
  KINORA_ASSIGN_OR_RETURN(const HostParameter in, attention.LoadOnHost("in_proj_weight", {3 * hidden, hidden}));
  KINORA_ASSIGN_OR_RETURN(head.in_, weights.Prepare(in, {3 * hidden, hidden}, weights.precision().activations));
  KINORA_ASSIGN_OR_RETURN(head.in_bias_, attention.LoadTensor("in_proj_bias", {3 * hidden}));
  KINORA_ASSIGN_OR_RETURN(head.out_, attention.LoadWeight({"out_proj"}, {.out = hidden, .in = hidden}));
  KINORA_ASSIGN_OR_RETURN(
      head.mlp_hidden_, weights.LoadWeight({"mlp_hidden"}, {.out = config.mlp_hidden, .in = config.queries * hidden}));
  KINORA_ASSIGN_OR_RETURN(head.mlp_out_, weights.LoadWeight({"mlp_out"}, {.out = 1, .in = config.mlp_hidden}));
  KINORA_ASSIGN_OR_RETURN(HostParameter ones, HostParameter::Allocate("ones", DType::kF32, {3 * hidden}));
  std::fill_n(ones.tensor().data<float>(), 3 * hidden, 1.0f);
  KINORA_ASSIGN_OR_RETURN(head.ones_, weights.Upload(std::move(ones)));
  return head;
}

void DurationHead::Project(Exec& exec, const Source& source, const Tensor& context, Tensor tokens) const {
  exec.ops.Matmul(context, source.input, {}, tokens);
  exec.ops.Affine(tokens, ones_.tensor().Columns(0, config_.hidden), source.mark, tokens);
}

void DurationHead::ProjectIn(Exec& exec, const Tensor& x, Tensor out) const {
  exec.ops.Matmul(x, in_, {}, out);
  exec.ops.Affine(out, ones_, in_bias_, out);
}

absl::StatusOr<double> DurationHead::Seconds(Exec& exec, const PerModality<Tensor>& context) const {
  const int64_t hidden = config_.hidden, queries = config_.queries;
  const int64_t video_rows = context.video.defined() ? context.video.rows() : 0;
  const int64_t rows = video_rows + context.audio.rows();
  ArenaScope temp(exec.arena);
  const Tensor tokens = temp.Alloc(exec.dtype, {rows, hidden}), kv = temp.Alloc(exec.dtype, {rows, 3 * hidden});
  const Tensor query = temp.Alloc(exec.dtype, {queries, hidden}), q = temp.Alloc(exec.dtype, {queries, 3 * hidden});
  const Tensor attended = temp.Alloc(exec.dtype, {queries, hidden}), pooled = temp.Alloc(exec.dtype, {queries, hidden});
  const Tensor mlp = temp.Alloc(exec.dtype, {1, config_.mlp_hidden}), log = temp.Alloc(exec.dtype, {1, 1});
  const Tensor out = temp.Alloc(DType::kF32, {1, 1});
  if (video_rows > 0) Project(exec, video_, context.video, tokens.Rows(0, video_rows));
  Project(exec, audio_, context.audio, tokens.Rows(video_rows, rows));
  ProjectIn(exec, tokens, kv);
  exec.ops.stream().Copy(queries_, query);
  ProjectIn(exec, query, q);
  const float scale = 1.0f / std::sqrt(static_cast<float>(hidden) / static_cast<float>(config_.heads));
  exec.ops.Attention(q.Columns(0, hidden), kv.Columns(hidden, 2 * hidden), kv.Columns(2 * hidden, 3 * hidden),
                     {.heads = static_cast<int>(config_.heads), .scale = scale}, attended);
  exec.ops.Matmul(attended, out_, {}, pooled);
  exec.ops.Matmul(pooled.Reshape({1, queries * hidden}), mlp_hidden_, {.activation = Activation::kGeluTanh}, mlp);
  exec.ops.Matmul(mlp, mlp_out_, {}, log);
  exec.ops.stream().Copy(log, out);
  float value = 0;
  exec.ops.stream().CopyToHost(out, &value);
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  const float seconds = std::exp(value);
  if (!std::isfinite(seconds)) return absl::InternalError(absl::StrCat("a predicted duration of ", seconds, " s"));
  return exec.dtype == DType::kBF16 ? static_cast<float>(bf16(seconds)) : seconds;  // as the reference rounds it
}

}  // namespace kinora

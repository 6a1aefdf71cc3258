#include "engine/model/feature_extractor.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr float kNormEps = 1e-6f;  // no configuration has a key for these two
constexpr float kRangeScale = 8.0f;

}  // namespace

absl::StatusOr<FeatureExtractor> FeatureExtractor::Load(WeightLoader weights, const ConnectorConfig& config,
                                                        const LayerRun& held, Modalities modalities) {
  if (held.empty()) weights = weights.HeldElsewhere();
  FeatureExtractor extractor;
  extractor.per_modality_ = config.per_modality_projections;
  extractor.held_ = held;
  extractor.text_width_ = config.text_width;
  extractor.video_width_ = config.video.width();
  extractor.audio_width_ = config.audio.width();
  WeightLoader picture = modalities == Modalities::kSound ? weights.HeldElsewhere() : weights;
  const auto load = [&](WeightLoader& from, std::string_view module, int64_t out) {
    return from.LoadInterleaved(module, {.out = out,
                                         .in = config.text_width,
                                         .count = config.text_states,
                                         .begin = held.begin,
                                         .end = held.end,
                                         .bias = config.projection_bias});
  };
  if (!config.per_modality_projections) {
    if (config.video.width() != config.audio.width()) {
      return absl::InvalidArgumentError(absl::StrCat("aggregate_embed cannot feed connectors of ", config.video.width(),
                                                     " and ", config.audio.width(),
                                                     " columns; check connector_num_attention_heads"));
    }
    KINORA_ASSIGN_OR_RETURN(extractor.video_, load(weights, "aggregate_embed", config.video.width()));
    return extractor;
  }
  KINORA_ASSIGN_OR_RETURN(extractor.video_, load(picture, "video_aggregate_embed", config.video.width()));
  KINORA_ASSIGN_OR_RETURN(extractor.audio_, load(weights, "audio_aggregate_embed", config.audio.width()));
  return extractor;
}

FeatureExtractor::Features FeatureExtractor::Alloc(ArenaScope& scope, int64_t tokens, Modalities modalities) const {
  Features features;
  const bool picture = modalities == Modalities::kBoth;
  const int64_t video = picture && per_modality_ ? tokens * video_width_ : 0, audio = tokens * audio_width_;
  features.all = scope.Alloc(DType::kF32, {video + audio, 1});
  features.audio = features.all.Rows(video, video + audio).Reshape({tokens, audio_width_});
  if (!picture) return features;
  features.video = per_modality_ ? features.all.Rows(0, video).Reshape({tokens, video_width_}) : features.audio;
  return features;
}

void FeatureExtractor::Add(Exec& exec, int64_t index, const Tensor& hidden, absl::Span<const int64_t> lengths,
                           const Features& features) const {
  const MatmulOptions add{.accumulate = index == 0 ? Accumulate::kNo : Accumulate::kAdd};
  KINORA_CHECK(held_.holds(index)) << "state " << index;
  const int64_t own = index - held_.begin;
  ArenaScope temp(exec.arena);
  Tensor normed = temp.Alloc(exec.dtype, {hidden.rows(), text_width_});
  if (!per_modality_) {
    int64_t begin = 0;
    for (int64_t length : lengths) {
      exec.ops.NormalizeRange(hidden.Rows(begin, begin + length), kRangeScale, kNormEps,
                              normed.Rows(begin, begin + length));
      begin += length;
    }
    exec.ops.Matmul(normed, video_[own], add, features.audio);
    return;
  }
  Tensor scaled = temp.Alloc(exec.dtype, {hidden.rows(), text_width_});
  exec.ops.RmsNorm(hidden, nullptr, kNormEps, Activation::kNone, normed);
  const auto project = [&](const Weight& weight, const Tensor& out) {
    const double ratio = static_cast<double>(weight.out()) / static_cast<double>(text_width_);
    exec.ops.Scale(normed, static_cast<float>(std::sqrt(ratio)), scaled);
    exec.ops.Matmul(scaled, weight, add, out);
  };
  if (features.video.defined()) project(video_[own], features.video);
  project(audio_[own], features.audio);
}

}  // namespace kinora

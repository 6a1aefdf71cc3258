#include "engine/pipeline/noise_draws.h"

#include <algorithm>
#include <string>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

using Floats = std::vector<float>;
using Use = NoiseDraw::Use;

}  // namespace

absl::Status CheckGivenShape(std::string_view name, const HostArray& given, const Shape& needed) {
  if (Shape(given.shape) == needed && static_cast<int64_t>(given.values.size()) == needed.elements())
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(name, ": shape ", Shape(given.shape).ToString(), ", but this request needs ", needed.ToString()));
}

Shape NoiseDraws::ShapeOf(const NoiseDraw& draw, const StagePlan& stage, int64_t draws) const {
  const int64_t channels = config_.transformer.video.in_channels;
  const AudioDecoderConfig& audio = config_.audio_decoder;
  if (!draw.video) return {draws, audio.latent_channels, plan_.audio_latents, audio.latent_bins()};
  if (draw.appended) return {draws, stage.appended, channels};
  return {draws, channels, stage.grid.frames, stage.grid.height, stage.grid.width};
}

void NoiseDraws::Pack(const NoiseDraw& draw, const StagePlan& stage, absl::Span<const float> from,
                      absl::Span<float> to) const {
  const AudioDecoderConfig& audio = config_.audio_decoder;
  if (!draw.video) return PackAudio(from, audio.latent_channels, plan_.audio_latents, audio.latent_bins(), to);
  if (draw.appended) return static_cast<void>(std::copy(from.begin(), from.end(), to.begin()));
  Transpose(from, config_.transformer.video.in_channels, stage.grid.tokens(), to);
}

absl::StatusOr<Floats> NoiseDraws::Given(const NoiseDraw& draw, const StagePlan& stage, int64_t draws) const {
  const std::string name = NoiseName(draw);
  const HostArray* const given = plan_.request.noise.Find(name);
  if (given == nullptr || (draw.appended && stage.appended == 0)) return Floats{};
  KINORA_RETURN_IF_ERROR(CheckGivenShape(name, *given, ShapeOf(draw, stage, draws)));
  Floats packed(given->values.size());
  const size_t each = packed.size() / draws;
  for (int64_t i = 0; i < draws; ++i) {
    Pack(draw, stage, absl::MakeConstSpan(given->values).subspan(i * each, each),
         absl::MakeSpan(packed).subspan(i * each, each));
  }
  return packed;
}

// The first stage draws in the latent's layout, as diffusers does; later stages draw packed, as both references do.
Floats NoiseDraws::DrawVideo(const StagePlan& stage) {
  const int64_t channels = config_.transformer.video.in_channels, grid = stage.grid.tokens() * channels;
  Floats packed(grid + stage.appended * channels);
  if (stage_ > 1) {
    source_.Fill(absl::MakeSpan(packed));
    return packed;
  }
  Floats drawn(grid);
  source_.Fill(absl::MakeSpan(drawn));
  const absl::Span<float> of_grid = absl::MakeSpan(packed).subspan(0, grid);
  Pack({}, stage, drawn, of_grid);
  source_.Fill(absl::MakeSpan(packed).subspan(grid));
  return packed;
}

Floats NoiseDraws::DrawAudio(const StagePlan& stage) {
  const NoiseDraw draw{.video = false};
  Floats drawn(ShapeOf(draw, stage, 1).elements());
  source_.Fill(absl::MakeSpan(drawn));
  if (stage_ > 1) return drawn;
  Floats packed(drawn.size());
  Pack(draw, stage, drawn, absl::MakeSpan(packed));
  return packed;
}

absl::StatusOr<PerModality<Floats>> NoiseDraws::Begin(const StagePlan& stage, bool dry) {
  ++stage_;
  PerModality<Floats> noise;
  if (plan_.denoised.video) {
    KINORA_ASSIGN_OR_RETURN(const Floats grid, Given({.stage = stage_}, stage, 1));
    KINORA_ASSIGN_OR_RETURN(const Floats appended, Given({.appended = true, .stage = stage_}, stage, 1));
    if (!dry) {
      noise.video = DrawVideo(stage);
      std::copy(grid.begin(), grid.end(), noise.video.begin());
      std::copy_backward(appended.begin(), appended.end(), noise.video.end());
    }
  }
  if (plan_.denoised.audio) {
    KINORA_ASSIGN_OR_RETURN(Floats given, Given({.video = false, .stage = stage_}, stage, 1));
    if (!dry) noise.audio = DrawAudio(stage);
    if (!dry && !given.empty()) noise.audio = std::move(given);
  }
  return noise;
}

absl::StatusOr<PerModality<GivenStepNoise>> NoiseDraws::OfSamplers(const StagePlan& stage) const {
  PerModality<GivenStepNoise> given;
  if (stage.sampler == SamplerKind::kEuler) return given;
  const bool halves = stage.sampler == SamplerKind::kRes2s;
  const auto steps = static_cast<int64_t>(stage.sigmas.size()) - 1;
  const int64_t count = halves ? steps : steps - 1;  // the last step of the ancestral sampler adds no noise
  given.video.draws = given.audio.draws = count;
  if (count == 0) return given;
  const auto read = [&](const NoiseDraw& draw, Floats& into) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(into, Given(draw, stage, count));
    return absl::OkStatus();
  };
  for (const auto& [use, draws] :
       {std::pair(Use::kSubstep, &GivenStepNoise::half_way), {Use::kStep, &GivenStepNoise::whole}}) {
    if (use == Use::kSubstep && !halves) continue;
    if (plan_.denoised.video) {
      KINORA_RETURN_IF_ERROR(read({.use = use, .stage = stage_}, (given.video.*draws).grid));
      KINORA_RETURN_IF_ERROR(read({.appended = true, .use = use, .stage = stage_}, (given.video.*draws).appended));
    }
    if (plan_.denoised.audio) {
      KINORA_RETURN_IF_ERROR(read({.video = false, .use = use, .stage = stage_}, (given.audio.*draws).grid));
    }
  }
  return given;
}

}  // namespace kinora

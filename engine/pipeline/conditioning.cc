#include "engine/pipeline/conditioning.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"
#include "engine/pipeline/video_encode_stage.h"
#include "engine/request/cover_and_crop.h"

namespace kinora {
namespace {

LatentScale EncoderScale(const ModelConfig& config) {
  return {.time = config.video_encoder.time_factor(), .space = config.video_encoder.space_factor()};
}

// The reference's tilings: clips in tiles of 80 frames overlapping by 24 and of 768 pixels overlapping by 64 along both
// sides; pictures whole.
constexpr Tiling kClipTiling{.frames = {80, 24}, .height = {768, 64}, .width = {768, 64}};
constexpr Tiling kWhole{};

// Plans a guide of at most `frames` frames of `stage`, cut to whole latent frames.
absl::StatusOr<GuidePlan> PlanGuide(const ModelConfig& config, const GuidedStage& stage, int64_t frames,
                                    const Tiling& tiling) {
  const LatentGrid grid = GridOf(frames, stage.grid.out_height(), stage.grid.out_width(), EncoderScale(config));
  GuidePlan guide{.every = stage.time};
  KINORA_ASSIGN_OR_RETURN(guide.tiles, PlanEncoderTiles(grid, tiling));
  return guide;
}

// Number of the stage's frames that a clip at the full frame rate covers.
int64_t FramesOf(const PixelClip& clip, const GuidedStage& stage) { return (clip.frames - 1) / stage.time + 1; }

absl::StatusOr<GuidePlan> PlanCondition(const ModelConfig& config, const ConditionInput& condition,
                                        const GuidedStage& stage) {
  // A plan for a shorter clip (memory_plan.h) may end before the condition's frame.
  const int64_t at = std::min(condition.frame / stage.time, stage.grid.out_frames() - 1);
  const int64_t left = stage.grid.out_frames() - at;
  const bool image = condition.media == ConditionInput::Media::kImage;
  const int64_t frames = image ? 1 : condition.pixels == nullptr ? left : FramesOf(*condition.pixels, stage);
  KINORA_ASSIGN_OR_RETURN(GuidePlan guide,
                          PlanGuide(config, stage, std::min(frames, left), image ? kWhole : kClipTiling));
  guide.pixels = condition.pixels;
  guide.frame = at;
  guide.appended = condition.append || condition.frame > 0;
  guide.mask.assign(guide.grid().frames, static_cast<float>(1 - condition.strength));
  return guide;
}

// Whether the retake's window overlaps the interval in seconds, in float32 like the reference.
bool Meets(const RetakeInput& retake, float begin, float end) {
  return end > static_cast<float>(retake.start_seconds) && begin < static_cast<float>(retake.end_seconds);
}

absl::StatusOr<GuidePlan> PlanRetake(const ModelConfig& config, const RetakeInput& retake, const GuidedStage& stage) {
  const int64_t all = stage.grid.out_frames();
  const int64_t frames = retake.clip == nullptr ? all : std::min(all, FramesOf(*retake.clip, stage));
  KINORA_ASSIGN_OR_RETURN(GuidePlan guide, PlanGuide(config, stage, frames, kClipTiling));
  guide.pixels = retake.clip;
  const auto begins = [&](int64_t f) { return VideoLatentBegins(stage.grid, f, stage.frame_rate); };
  for (int64_t f = 0; f < guide.grid().frames; ++f) {
    guide.mask.push_back(!retake.keep_video && Meets(retake, begins(f), begins(f + 1)) ? 1.0f : 0.0f);
  }
  return guide;
}

// The middle of the pixel frames [begin, end) in seconds, in float32 like the reference.
float MiddleSeconds(int64_t begin, int64_t end, double frame_rate) {
  const auto seconds = [&](int64_t frame) { return static_cast<float>(frame) / static_cast<float>(frame_rate); };
  return (seconds(begin) + seconds(end)) / 2.0f;
}

// Position in time of a guide's latent frame. Only the first latent frame of the clip, or a single picture, covers one
// frame; in a guide that begins later, every latent frame covers time_factor frames.
float GuideSeconds(const GuidePlan& guide, int64_t latent_frame, double frame_rate) {
  const LatentGrid& grid = guide.grid();
  if (grid.frames == 1) return MiddleSeconds(guide.frame, guide.frame + 1, frame_rate);
  const int64_t early = guide.frame == 0 ? grid.time_factor - 1 : 0;
  const auto frame = [&](int64_t latent) {
    return guide.frame + std::max<int64_t>(0, latent * grid.time_factor - early);
  };
  return MiddleSeconds(frame(latent_frame), frame(latent_frame + 1), frame_rate);
}

// z = clean + m·(z − clean).
void Blend(Exec& exec, const Tensor& clean, float m, const Tensor& z) {
  if (m == 1) return;
  if (m == 0) return exec.ops.stream().Copy(clean, z);
  ArenaScope temp(exec.arena);
  const Tensor share = temp.Alloc(DType::kF32, clean.shape());
  exec.ops.Scale(clean, 1 - m, share);
  exec.ops.Scale(z, m, z);
  exec.ops.Add(share, z);
}

absl::Status CheckGuide(const Exec& exec, const VideoEncoder& encoder, const GuidePlan& guide) {
  const LatentGrid& grid = guide.grid();
  KINORA_RETURN_IF_ERROR(
      encoder.CheckPixels({grid.out_frames(), grid.out_height(), grid.out_width(), encoder.config().in_channels}));
  if (exec.ops.dry() || (guide.pixels != nullptr && !guide.pixels->rgb.empty())) return absl::OkStatus();
  return absl::FailedPreconditionError("conditions, retake: what they show was not read");
}

VideoEncodeStage::Pixels PixelsOf(const GuidePlan& guide) {
  const CoveredSize size{.width = guide.grid().out_width(), .height = guide.grid().out_height()};
  return [&guide, size](int64_t frame, const PixelRegion& part, float* out) {
    const PixelClip& clip = *guide.pixels;
    const uint8_t* const rgb = clip.rgb.data() + frame * guide.every * clip.height * clip.width * 3;
    CoverAndCrop({.rgb = rgb, .width = clip.width, .height = clip.height}, size, part, out);
  };
}

}  // namespace

absl::StatusOr<std::vector<GuidePlan>> PlanGuides(const ModelConfig& config, const GenerationRequest& request,
                                                  const GuidedStage& stage) {
  std::vector<GuidePlan> guides;
  for (const ConditionInput& condition : request.conditions) {
    KINORA_ASSIGN_OR_RETURN(guides.emplace_back(), PlanCondition(config, condition, stage));
  }
  if (request.retake.has_value()) {
    KINORA_ASSIGN_OR_RETURN(guides.emplace_back(), PlanRetake(config, *request.retake, stage));
  }
  return guides;
}

HeldSound PlanHeldSound(const GenerationRequest& request, int64_t audio_latents, const LatentScale& scale) {
  if (!request.retake.has_value()) return {};
  const RetakeInput& retake = *request.retake;
  if (retake.clip != nullptr && retake.audio == nullptr) return {};
  HeldSound held{.span = HeardSpan({.audio = retake.audio}, request.num_frames, request.frame_rate)};
  if (retake.audio != nullptr) held.span.samples = std::min(held.span.samples, retake.audio->samples);
  for (int64_t i = 0; i < audio_latents; ++i) {
    const bool anew = Meets(retake, AudioLatentBegins(i, scale), AudioLatentBegins(i + 1, scale));
    held.mask.push_back(!retake.keep_audio && anew ? 1.0f : 0.0f);
  }
  return held;
}

int64_t AppendedTokens(absl::Span<const GuidePlan> guides) {
  int64_t tokens = 0;
  for (const GuidePlan& guide : guides) tokens += guide.appended_tokens();
  return tokens;
}

std::vector<std::vector<float>> GuidedPositions(absl::Span<const GuidePlan> guides, const GuidedStage& stage) {
  std::vector<std::vector<float>> positions = VideoPositions(stage.grid, stage.frame_rate);
  const int64_t per_frame = stage.grid.height * stage.grid.width;
  for (const GuidePlan& guide : guides) {
    if (!guide.appended) continue;
    for (int64_t f = 0; f < guide.grid().frames; ++f) {
      positions[0].insert(positions[0].end(), per_frame, GuideSeconds(guide, f, stage.frame_rate));
      for (const int axis : {1, 2}) {  // the same as in the first frame
        for (int64_t i = 0; i < per_frame; ++i) positions[axis].push_back(positions[axis][i]);
      }
    }
  }
  return positions;
}

absl::Status EncodeGuides(Exec& exec, const VideoEncoder& encoder, absl::Span<const GuideLatent> guides,
                          absl::FunctionRef<absl::Status(int64_t done)> on_round) {
  std::vector<VideoEncodeStage::Clip> clips;
  for (const auto& [guide, latent] : guides) clips.push_back({&guide->tiles, PixelsOf(*guide), latent});
  KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&]() -> absl::Status {
    for (const GuideLatent& of : guides) KINORA_RETURN_IF_ERROR(CheckGuide(exec, encoder, *of.guide));
    return absl::OkStatus();
  }));
  return VideoEncodeStage(encoder).Run(exec, clips, on_round);
}

void BlendGuides(Exec& exec, absl::Span<const GuidePlan> guides, absl::Span<const Tensor> latents, LatentState& state) {
  if (guides.empty()) return;
  KINORA_CHECK_EQ(guides.size(), latents.size());
  const int64_t tokens = state.layout.tokens(), channels = state.z.width();
  state.clean = exec.arena.Alloc(DType::kF32, {tokens, channels});
  exec.ops.Fill(0.0f, state.clean);
  state.mask.assign(tokens, 1.0f);
  int64_t appended = state.layout.grid;
  for (size_t i = 0; i < guides.size(); ++i) {
    const LatentGrid& grid = guides[i].grid();
    const int64_t first = guides[i].appended ? appended : 0, rows = grid.tokens(), per_frame = rows / grid.frames;
    appended += guides[i].appended_tokens();
    exec.ops.stream().Copy(latents[i].Reshape({rows, channels}), state.clean.Rows(first, first + rows));
    for (int64_t row = 0; row < rows; ++row) state.mask[first + row] = guides[i].mask[row / per_frame];
  }
  BlendClean(exec, state);
}

void BlendClean(Exec& exec, const LatentState& state) {
  const auto tokens = static_cast<int64_t>(state.mask.size());
  for (int64_t begin = 0, end; begin < tokens; begin = end) {
    const float m = state.mask[begin];
    for (end = begin + 1; end < tokens && state.mask[end] == m;) ++end;
    Blend(exec, state.clean.Rows(begin, end), m, state.z.Rows(begin, end));
  }
}

}  // namespace kinora

#include "engine/pipeline/generation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/diffusion/noise.h"
#include "engine/diffusion/schedule.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/redistribute.h"
#include "engine/pipeline/denoiser.h"
#include "engine/pipeline/video_decode_stage.h"

namespace kinora {
namespace {

GuidanceScales ScalesOf(const std::optional<GuidanceParams>& g) {
  return {g->cfg_scale, g->stg_scale, g->modality_scale, g->rescale};
}

std::vector<int> Blocks(const std::optional<GuidanceParams>& g) {
  if (!g->NeedsPerturbed()) return {};
  return {g->stg_blocks.begin(), g->stg_blocks.end()};
}

Tensor HostView(std::vector<float>& values, const Shape& shape) { return Tensor(DType::kF32, shape, values.data()); }

absl::Status CheckNoise(std::string_view name, const HostArray& given, const Shape& needed) {
  if (Shape(given.shape) == needed && static_cast<int64_t>(given.values.size()) == needed.elements())
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(name, ": shape ", Shape(given.shape).ToString(), ", but this request needs ", needed.ToString()));
}

}  // namespace

std::string_view PhaseName(Phase phase) {
  constexpr std::string_view kNames[] = {"encode", "denoise", "decode_video", "decode_audio"};
  return kNames[static_cast<int>(phase)];
}

Generation::Generation(const ModelConfig& config, const Modules& modules, const GenerationRequest& request,
                       ClipSink* sink, std::optional<std::array<int64_t, 2>> dry_tokens)
    : config_(config),
      modules_(modules),
      request_(request),
      sink_(sink),
      dry_tokens_(dry_tokens),
      scale_(ScaleOf(config)),
      grid_(GridOf(request.num_frames, request.height, request.width, scale_)),
      audio_latents_(std::max<int64_t>(1, AudioLatents(request.num_frames, request.frame_rate, scale_))),
      video_scales_(ScalesOf(request.video_guidance)),
      audio_scales_(ScalesOf(request.audio_guidance)),
      passes_(PassesFor(video_scales_, audio_scales_)) {}

std::vector<float> NoiseLevels(const SchedulerConfig& s, const GenerationRequest& request, int64_t grid_tokens) {
  if (!request.sigmas.empty()) return {request.sigmas.begin(), request.sigmas.end()};
  if (request.recipe == Recipe::kDistilled) return DistilledSigmas();
  const int64_t tokens = request.schedule_tokens > 0   ? request.schedule_tokens
                         : request.schedule_tokens < 0 ? grid_tokens
                                                       : s.max_tokens;
  return DevSigmas({.base_shift = s.base_shift,
                    .max_shift = s.max_shift,
                    .base_tokens = s.base_tokens,
                    .max_tokens = s.max_tokens,
                    .terminal = s.terminal.value_or(0.1)},
                   request.num_inference_steps, tokens);
}

// So many tokens shift every level to 1 (and a shift of the model's own beyond float32 does the same).
absl::Status CheckNoiseLevels(const std::vector<float>& sigmas) {
  if (std::all_of(sigmas.begin(), sigmas.end(), [](float sigma) { return std::isfinite(sigma); }))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "schedule_tokens: with so many tokens and the scheduler's base_shift and max_shift every noise level is 1; 0 "
      "(the "
      "model's own number) or a smaller one is needed, or explicit sigmas");
}

absl::Status Generation::EncodeDry(Exec& exec, PromptContext& cond, PromptContext& uncond) {
  const std::array<int64_t, 2> longest = {modules_.text->rows(), modules_.text->rows()};
  const std::array<int64_t, 2> tokens = dry_tokens_.value_or(longest);
  const int prompts = passes_[0] == Pass::kUncond ? 2 : 1;
  std::vector<std::vector<int32_t>> ids(prompts);
  for (int i = 0; i < prompts; ++i) ids[i].assign(tokens[i], 0);
  const TextContext out[] = {{cond.video, cond.audio}, {uncond.video, uncond.audio}};
  return modules_.text->EncodeTokens(exec, ids, absl::MakeConstSpan(out, prompts));
}

absl::Status Generation::Encode(Exec& exec, PromptContext& cond, PromptContext& uncond) {
  const bool guided = passes_[0] == Pass::kUncond;
  const auto alloc = [&] {
    const TextContext c = modules_.text->AllocContext(exec.arena, exec.dtype);
    return PromptContext{c.video, c.audio};
  };
  cond = alloc();
  if (guided) uncond = alloc();
  if (exec.ops.dry()) return EncodeDry(exec, cond, uncond);

  std::vector<std::string> prompts = {request_.prompt};
  if (guided) prompts.push_back(request_.negative_prompt.value_or(""));
  const TextContext out[] = {{cond.video, cond.audio}, {uncond.video, uncond.audio}};
  KINORA_RETURN_IF_ERROR(modules_.text->Encode(exec, prompts, absl::MakeConstSpan(out, prompts.size())));
  return OnRankZero(exec, [&] { return ReportText(exec, cond, uncond); });
}

absl::Status Generation::ReportText(Exec& exec, const PromptContext& cond, const PromptContext& uncond) {
  if (!wants_intermediates()) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, modules_.text->Tokenize(request_.prompt));
  std::vector<int64_t> wide(ids.begin(), ids.end());
  KINORA_RETURN_IF_ERROR(
      sink_->Intermediate("input_ids", Tensor(DType::kI64, {static_cast<int64_t>(wide.size())}, wide.data())));
  KINORA_RETURN_IF_ERROR(ReportContexts(exec, cond, ""));
  return passes_[0] == Pass::kUncond ? ReportContexts(exec, uncond, "_negative") : absl::OkStatus();
}

absl::Status Generation::ReportContexts(Exec& exec, const PromptContext& context, std::string_view suffix) {
  for (const auto& [name, value] : {std::pair("video_context", context.video), {"audio_context", context.audio}}) {
    ArenaScope temp(exec.arena);
    Tensor wide = temp.Alloc(DType::kF32, value.shape());
    exec.ops.stream().Copy(value, wide);
    std::vector<float> host(value.elements());
    exec.ops.stream().CopyToHost(wide, host.data());
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    KINORA_RETURN_IF_ERROR(sink_->Intermediate(Cat(name, suffix), HostView(host, {1, value.dim(0), value.dim(1)})));
  }
  return absl::OkStatus();
}

// Drawn whole on every rank, in the reference's order and layout: video, then audio.
absl::Status Generation::MakeNoise(Exec& exec, const Latents& z) const {
  const int64_t channels = config_.transformer.video.in_channels, tokens = grid_.tokens();
  const int64_t audio_channels = config_.audio_decoder.latent_channels, bins = config_.audio_decoder.latent_bins();
  const Shape video_shape{1, channels, grid_.frames, grid_.height, grid_.width};
  const Shape audio_shape{1, audio_channels, audio_latents_, bins};
  if (request_.noise.video.has_value())
    KINORA_RETURN_IF_ERROR(CheckNoise("video_noise", *request_.noise.video, video_shape));
  if (request_.noise.audio.has_value())
    KINORA_RETURN_IF_ERROR(CheckNoise("audio_noise", *request_.noise.audio, audio_shape));
  exec.ops.Fill(0.0f, z.video);
  if (exec.ops.dry()) return absl::OkStatus();

  std::vector<float> video(video_shape.elements()), audio(audio_shape.elements());
  NoiseGenerator generator(request_.seed);
  generator.Fill(absl::MakeSpan(video));
  generator.Fill(absl::MakeSpan(audio));
  if (request_.noise.video.has_value()) video = request_.noise.video->values;
  if (request_.noise.audio.has_value()) audio = request_.noise.audio->values;
  std::vector<float> packed_video(video.size()), packed_audio(audio.size());
  Transpose(video, channels, tokens, absl::MakeSpan(packed_video));
  PackAudio(audio, audio_channels, audio_latents_, bins, absl::MakeSpan(packed_audio));
  exec.ops.stream().CopyFromHost(packed_video.data(), z.video.Rows(0, tokens));
  exec.ops.stream().CopyFromHost(packed_audio.data(), z.audio);
  return absl::OkStatus();
}

absl::Status Generation::DenoiseLatents(Exec& exec, const PromptContext& cond, const PromptContext& uncond, Latents z,
                                        OnStep on_step) {
  ArenaScope scope(exec.arena);
  const std::vector<float> sigmas = Sigmas();
  KINORA_RETURN_IF_ERROR(CheckNoiseLevels(sigmas));
  StageSpec spec;
  spec.video_positions = VideoPositions(grid_, request_.frame_rate, scale_);
  spec.audio_positions = AudioPositions(audio_latents_, scale_);
  spec.passes = passes_;
  spec.perturbed_video_blocks = Blocks(request_.video_guidance);
  spec.perturbed_audio_blocks = Blocks(request_.audio_guidance);
  spec.cond = cond;
  spec.uncond = uncond;
  spec.video_sigmas.assign(sigmas.begin(), sigmas.end() - 1);
  spec.audio_sigmas = spec.video_sigmas;
  KINORA_ASSIGN_OR_RETURN(const Stage stage, Stage::Prepare(exec, *modules_.transformer, spec));
  KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&] {
    std::vector<float> copy = sigmas;
    return wants_intermediates() ? sink_->Intermediate("sigmas", HostView(copy, {static_cast<int64_t>(copy.size())}))
                                 : absl::OkStatus();
  }));
  const int64_t steps = static_cast<int64_t>(sigmas.size()) - 1;
  return Denoise(exec, stage,
                 {.video_weights = WeightsFor(video_scales_, passes_),
                  .audio_weights = WeightsFor(audio_scales_, passes_),
                  .sigmas = sigmas,
                  .video_skip = request_.video_guidance->skip_step,
                  .audio_skip = request_.audio_guidance->skip_step},
                 z.video, z.audio, [&](int64_t step) { return on_step(Phase::kDenoise, step + 1, steps); });
}

ClipInfo Generation::Info() const {
  const int64_t rows = modules_.audio->MelRows(audio_latents_);
  return {.width = request_.width,
          .height = request_.height,
          .num_frames = request_.num_frames,
          .frame_rate = request_.frame_rate,
          .audio_sample_rate = static_cast<int32_t>(modules_.vocoder->sample_rate()),
          .audio_channels = static_cast<int32_t>(modules_.vocoder->channels()),
          .audio_samples = modules_.vocoder->Samples(rows)};
}

absl::Status Generation::DecodeVideo(Exec& exec, const Tensor& latent, OnStep on_step) {
  const int64_t channels = latent.width(), tokens = grid_.tokens();
  const Shape shape{1, channels, grid_.frames, grid_.height, grid_.width};
  std::vector<float> packed(exec.ops.dry() ? 0 : tokens * channels), host(packed.size());
  if (!exec.ops.dry()) {
    exec.ops.stream().CopyToHost(latent.Rows(0, tokens), packed.data());
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    Transpose(packed, tokens, channels, absl::MakeSpan(host));
  }
  KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&] {
    if (wants_intermediates()) KINORA_RETURN_IF_ERROR(sink_->Intermediate("video_latent", HostView(host, shape)));
    return sink_ != nullptr ? sink_->Begin(Info()) : absl::OkStatus();
  }));
  const VideoDecodeStage stage(*modules_.video);
  const auto emit = [&](const DecodedFrames& frames) {
    if (wants_intermediates()) KINORA_RETURN_IF_ERROR(sink_->FloatFrames(frames.first, frames.rgb));
    return sink_->Frames(frames.first, frames.rgb8);
  };
  return stage.Run(exec, exec.arena, HostView(host, shape), emit,
                   [&](int64_t done, int64_t total) { return on_step(Phase::kDecodeVideo, done, total); });
}

absl::Status Generation::ReportAudioLatent(Exec& exec, const Tensor& latent) {
  const int64_t channels = config_.audio_decoder.latent_channels, bins = config_.audio_decoder.latent_bins();
  std::vector<float> packed(latent.elements()), host(latent.elements());
  exec.ops.stream().CopyToHost(latent, packed.data());
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  UnpackAudio(packed, channels, audio_latents_, bins, absl::MakeSpan(host));
  return sink_->Intermediate("audio_latent", HostView(host, {1, channels, audio_latents_, bins}));
}

absl::Status Generation::DecodeAudio(Exec& exec, const Tensor& latent) {
  ArenaScope scope(exec.arena);
  const Shape mel_shape = modules_.audio->OutputShape(audio_latents_);
  Tensor mel = scope.Alloc(DType::kF32, mel_shape);
  Tensor waveform = scope.Alloc(DType::kF32, {modules_.vocoder->channels(), modules_.vocoder->Samples(mel_shape[1])});
  modules_.audio->Forward(exec, latent, mel);
  modules_.vocoder->Forward(exec, mel, waveform);
  if (exec.ops.dry()) return absl::OkStatus();
  std::vector<float> host(waveform.elements());
  exec.ops.stream().CopyToHost(waveform, host.data());
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  return sink_->Audio(HostView(host, waveform.shape()));
}

absl::Status Generation::Run(Exec& exec, OnStep on_step) {
  ArenaScope request(exec.arena);
  const bool first = exec.mesh.world().rank() == 0;
  const auto begin = [&](Phase phase, int64_t total) {
    return OnRankZero(exec, [&] { return on_step(phase, 0, total); });
  };
  PromptContext cond, uncond;
  KINORA_RETURN_IF_ERROR(begin(Phase::kEncode, 0));
  KINORA_RETURN_IF_ERROR(Encode(exec, cond, uncond));

  const int64_t rows = (grid_.tokens() + kKeyChunks - 1) / kKeyChunks * kKeyChunks;
  const Latents z{request.Alloc(DType::kF32, {rows, config_.transformer.video.in_channels}),
                  request.Alloc(DType::kF32, {audio_latents_, config_.transformer.audio.in_channels})};
  KINORA_RETURN_IF_ERROR(MakeNoise(exec, z));
  KINORA_RETURN_IF_ERROR(begin(Phase::kDenoise, request_.num_inference_steps));
  KINORA_RETURN_IF_ERROR(DenoiseLatents(exec, cond, uncond, z, on_step));
  if (wants_intermediates()) KINORA_RETURN_IF_ERROR(ReportAudioLatent(exec, z.audio));  // before the sink's Begin
  KINORA_RETURN_IF_ERROR(DecodeVideo(exec, z.video, on_step));
  if (!first) return absl::OkStatus();
  KINORA_RETURN_IF_ERROR(on_step(Phase::kDecodeAudio, 0, 0));
  KINORA_RETURN_IF_ERROR(DecodeAudio(exec, z.audio));
  return sink_ != nullptr ? sink_->End() : absl::OkStatus();
}

}  // namespace kinora

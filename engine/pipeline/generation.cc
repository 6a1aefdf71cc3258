#include "engine/pipeline/generation.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/trace.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/redistribute.h"
#include "engine/pipeline/audio_encode_stage.h"
#include "engine/pipeline/denoiser.h"
#include "engine/pipeline/video_decode_stage.h"
#include "engine/request/upscaling.h"

namespace kinora {
namespace {

// Blocks to perturb, if the stage has an STG pass. A modality that a retake keeps is perturbed too.
std::vector<int> PerturbedBlocks(const GuidanceParams& g, const PassList& passes) {
  if (!g.NeedsPerturbed() || std::count(passes.begin(), passes.end(), Pass::kPerturbed) == 0) return {};
  return {g.stg_blocks.begin(), g.stg_blocks.end()};
}

}  // namespace

absl::Status Generation::Encode(Exec& exec) {
  TextEncoder& text = *modules_.text;
  const size_t prompts = guided() ? 2 : 1;
  std::vector<TextContext> contexts;
  const Modalities modalities = plan_.denoised.video ? Modalities::kBoth : Modalities::kSound;
  for (size_t i = 0; i < prompts; ++i) contexts.push_back(text.AllocContext(exec.arena, exec.dtype, modalities));
  cond_ = contexts.front();
  if (guided()) uncond_ = contexts.back();
  if (exec.ops.dry()) {
    std::vector<std::vector<int32_t>> ids(prompts);
    for (size_t i = 0; i < prompts; ++i) ids[i].assign(plan_.text_tokens[i], 0);
    KINORA_RETURN_IF_ERROR(text.EncodeTokens(exec, ids, contexts));
    return plan_.open_length.has_value() ? PredictFrames(exec) : absl::OkStatus();
  }
  std::vector<std::string> words = {request_.prompt};
  if (guided()) words.push_back(request_.negative_prompt.value_or(""));
  KINORA_RETURN_IF_ERROR(text.Encode(exec, words, contexts, text_key_));
  return OnRankZero(exec, [&] { return ReportText(exec); });
}

// Sets frames_ on every rank, from the prompt's context.
absl::Status Generation::PredictFrames(Exec& exec) {
  absl::Status status;
  if (exec.mesh.world().rank() == 0) {
    const absl::StatusOr<double> seconds = modules_.duration_head->Seconds(exec, cond_);
    status = seconds.status();
    if (seconds.ok()) frames_ = FramesFromSeconds(*seconds, *plan_.open_length);
  }
  return ShareFromRankZero(exec, status, absl::MakeSpan(&frames_, 1));
}

// Rank 0 encodes; every rank gets the latent.
absl::Status Generation::EncodeSound(Exec& exec, const AudioClip* sound, const SoundSpan& span, const Tensor& latent) {
  KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&] {
    const char* const field = request_.retake.has_value() ? "retake.clip" : "audio";
    if (sound == nullptr && !exec.ops.dry())
      return absl::FailedPreconditionError(Cat(field, ": its sound was not read"));
    const AudioClip none;
    const absl::Status run = AudioEncodeStage(*modules_.audio_encoder, *modules_.mel)
                                 .Run(exec, sound != nullptr ? *sound : none, span, latent);
    return absl::IsInvalidArgument(run) ? absl::InvalidArgumentError(Cat(field, ": ", run.message())) : run;
  }));
  exec.mesh.world().Broadcast(0, latent, exec.ops.stream());
  return absl::OkStatus();
}

Tensor Generation::AllocAudio(Exec& exec) const {
  return exec.arena.Alloc(DType::kF32, {plan_.audio_latents, config_.transformer.audio.in_channels});
}

absl::Status Generation::EncodeGivenSound(Exec& exec) {
  z_.audio = {
      .layout = {.grid = plan_.audio_latents, .padded = plan_.audio_latents}, .z = AllocAudio(exec), .frozen = true};
  return EncodeSound(exec, request_.audio->audio.get(), plan_.given_sound, z_.audio.z);
}

// Encodes the guides of all denoising stages at once.
absl::Status Generation::EncodeGuides(Exec& exec, const StagePlan& stage, OnStep on_step) {
  std::vector<GuideLatent> made;
  for (const StagePlan& guided : plan_.stages) {
    for (const GuidePlan& guide : guided.guides) {
      const LatentGrid& grid = guide.grid();
      const Tensor latent =
          exec.arena.Alloc(DType::kF32, {grid.frames, grid.height, grid.width, config_.transformer.video.in_channels});
      guides_[&guided].push_back(latent);
      made.push_back({&guide, latent});
    }
  }
  return kinora::EncodeGuides(exec, *modules_.video_encoder, made,
                              [&](int64_t done) { return on_step(stage, done, nullptr); });
}

absl::Status Generation::EncodeInputs(Exec& exec, const StagePlan& stage, OnStep on_step) {
  KINORA_RETURN_IF_ERROR(EncodeGuides(exec, stage, on_step));
  if (plan_.held_sound.mask.empty()) return absl::OkStatus();
  held_sound_ = AllocAudio(exec);
  return EncodeSound(exec, request_.retake->audio.get(), plan_.held_sound.span, held_sound_);
}

LatentState Generation::AllocVideo(Exec& exec, const StagePlan& stage) const {
  const int64_t channels = config_.transformer.video.in_channels, tokens = stage.grid.tokens() + stage.appended;
  const int64_t padded = (tokens + kKeyChunks - 1) / kKeyChunks * kKeyChunks;
  LatentState state{.layout = {.grid = stage.grid.tokens(), .appended = stage.appended, .padded = padded},
                    .z = exec.arena.Alloc(DType::kF32, {padded, channels})};
  exec.ops.Fill(0.0f, state.z);
  return state;
}

void Generation::AllocDenoised(Exec& exec, const StagePlan& stage) {
  grid_ = stage.grid;
  if (plan_.denoised.video) z_.video = AllocVideo(exec, stage);
  if (!plan_.denoised.audio) return;
  z_.audio = {.layout = {.grid = plan_.audio_latents, .padded = plan_.audio_latents}, .z = AllocAudio(exec)};
}

// Sets the initial latents of a stage: noise alone, or noise mixed with the result of the earlier stages.
absl::Status Generation::Begin(Exec& exec, const StagePlan& stage) {
  if (!std::exchange(begun_, true)) AllocDenoised(exec, stage);
  const PerModality<Tensor> z{plan_.denoised.video ? z_.video.z.Rows(0, z_.video.layout.tokens()) : Tensor(),
                              plan_.denoised.audio ? z_.audio.z : Tensor()};
  KINORA_ASSIGN_OR_RETURN(const PerModality<std::vector<float>> noise, noise_.Begin(stage, exec.ops.dry()));
  const auto mix = [&](const std::vector<float>& drawn, const Tensor& latent) {
    if (!latent.defined()) return;
    if (stage.noise_scale == 1) return exec.ops.stream().CopyFromHost(drawn.data(), latent);
    ArenaScope temp(exec.arena);
    const Tensor share = temp.Alloc(DType::kF32, latent.shape());
    exec.ops.stream().CopyFromHost(drawn.data(), share);
    exec.ops.Scale(share, static_cast<float>(stage.noise_scale), share);
    exec.ops.Scale(latent, static_cast<float>(1 - stage.noise_scale), latent);
    exec.ops.Add(share, latent);
  };
  mix(noise.video, z.video);
  mix(noise.audio, z.audio);
  Hold(exec, stage);
  return absl::OkStatus();
}

// Blends guides and the sound that a retake keeps into the initial latents.
void Generation::Hold(Exec& exec, const StagePlan& stage) {
  BlendGuides(exec, stage.guides, guides_[&stage], z_.video);
  z_.video.frozen = plan_.frozen.video;
  if (!held_sound_.defined()) return;
  z_.audio.clean = held_sound_;
  z_.audio.mask = plan_.held_sound.mask;
  z_.audio.frozen = plan_.frozen.audio;
  BlendClean(exec, z_.audio);
}

// Whether no later stage is of the same kind.
bool Generation::IsLast(const StagePlan& stage) const {
  return std::none_of(&stage + 1, plan_.stages.data() + plan_.stages.size(),
                      [&](const StagePlan& later) { return later.kind == stage.kind; });
}

// Keeps the sound of the stage whose sound is decoded. A later stage works on a copy.
void Generation::KeepSound(Exec& exec, const StagePlan& stage) {
  if (&stage != &plan_.stages[plan_.audio_stage]) return;
  sound_ = z_.audio.z;
  if (z_.audio.frozen || IsLast(stage)) return;
  z_.audio.z = exec.arena.Alloc(DType::kF32, sound_.shape());
  exec.ops.stream().Copy(sound_, z_.audio.z);
  sound_is_apart_ = true;
}

absl::Status Generation::Upsample(Exec& exec, const StagePlan& stage) {
  const LatentUpsampler& upsampler =
      FindUpscaling(request_.upsampler)->time > 1 ? *modules_.temporal_upsampler : *modules_.spatial_upsampler;
  const auto cells = [](const LatentState& state, const LatentGrid& grid) {
    return state.z.Rows(0, grid.tokens()).Reshape({grid.frames, grid.height, grid.width, state.z.width()});
  };
  const LatentState next = AllocVideo(exec, stage);
  if (!PassesOver(stage)) upsampler.Forward(exec, cells(z_.video, grid_), cells(next, stage.grid));
  z_.video = next;
  grid_ = stage.grid;
  return absl::OkStatus();
}

// Returns for each denoising step whether the observer reads its latents. Only rank 0 has an observer, but all ranks
// must wait at the same steps.
absl::StatusOr<std::vector<bool>> Generation::WatchedSteps(Exec& exec, int64_t steps) const {
  constexpr int64_t kBits = 63;
  std::vector<int64_t> words((steps + kBits - 1) / kBits);
  for (int64_t i = 0; i < steps; ++i) {
    if (observer_ != nullptr && observer_->WantsLatents(i + 1, steps)) words[i / kBits] |= int64_t{1} << i % kBits;
  }
  KINORA_RETURN_IF_ERROR(ShareFromRankZero(exec, absl::OkStatus(), absl::MakeSpan(words)));
  std::vector<bool> watched(steps);
  for (int64_t i = 0; i < steps; ++i) watched[i] = (words[i / kBits] >> i % kBits & 1) != 0;
  return watched;
}

VelocityInputs Generation::InputsOf(const StagePlan& stage) const {
  VelocityInputs inputs{.of = {}, .passes = stage.passes, .cond = cond_, .uncond = uncond_, .ropes = &ropes_};
  const auto set = [&](ModalityInputs& in, const LatentState& state, const GuidanceParams& guidance) {
    in.sigmas = EvaluationLevels(stage.sampler, stage.sigmas);
    if (state.frozen) std::fill(in.sigmas.begin(), in.sigmas.end(), 0.0f);
    in.mask = state.mask;
    in.perturbed_blocks = PerturbedBlocks(guidance, stage.passes);
  };
  set(inputs.of.video, z_.video, stage.guidance.video);
  set(inputs.of.audio, z_.audio, stage.guidance.audio);
  if (!plan_.denoised.audio) inputs.uncond.audio = cond_.audio;  // given sound is not guided
  inputs.of.video.marked_tokens = stage.grid.height * stage.grid.width;
  inputs.of.video.positions = GuidedPositions(stage.guides, stage.guided_stage());
  inputs.of.audio.positions = AudioPositions(plan_.audio_latents, ScaleOf(config_));
  return inputs;
}

absl::Status Generation::Denoise(Exec& exec, const StagePlan& stage, OnStep on_step) {
  KINORA_RETURN_IF_ERROR(Begin(exec, stage));
  if (decoder_noise_.has_value() && IsLast(stage)) DrawAhead(exec);
  ArenaScope scope(exec.arena);
  const Mesh& mesh = MeshOfStage(exec.mesh, config_.transformer, stage.passes.size());
  Exec on_mesh{exec.backend, exec.arena, exec.host, mesh, exec.dtype, exec.taps, exec.ops};
  KINORA_ASSIGN_OR_RETURN(const VelocityModel model,
                          VelocityModel::Prepare(on_mesh, *modules_.transformer, InputsOf(stage)));
  KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&] { return ReportSigmas(stage); }));
  KINORA_ASSIGN_OR_RETURN(std::vector<bool> watched, WatchedSteps(exec, stage.steps));
  KINORA_ASSIGN_OR_RETURN(PerModality<GivenStepNoise> given, noise_.OfSamplers(stage));
  PerModality<Tensor> x0;
  const DenoiseSpec spec{
      .passes = stage.passes,
      .guidance = stage.guidance.Map(ScalesOf),
      .sigmas = stage.sigmas,
      .sampler = stage.sampler,
      .seed = request_.seed,
      .skip = stage.guidance.Map([](const GuidanceParams& g) { return static_cast<int>(g.skip_step); }),
      .given = std::move(given),
      .watched = std::move(watched),
      .done = Resumes(stage) ? start_.step : 0,
      .restore = [&](const CarriedTensors& carried) { return RestoreValues(exec, from_, WithKeptSound(carried)); },
      .keep = [&](int64_t step, const CarriedTensors& carried) { return Keep(exec, stage, step, carried); },
      .x0 = &x0};
  return kinora::Denoise(on_mesh, model, spec, graphs_, z_, [&](int64_t step) {
    const StepLatents latents{.exec = exec, .stage = stage, .state = z_, .x0 = x0};
    return on_step(stage, step + 1, spec.watched[step] ? &latents : nullptr);
  });
}

// Every rank learns where rank 0's resume point lies.
absl::Status Generation::FindStart(Exec& exec) {
  const absl::Status fits = from_ == nullptr ? absl::OkStatus() : CheckResumePoint(plan_, *from_);
  int64_t numbers[] = {from_ == nullptr ? 0 : from_->stage, from_ == nullptr ? 0 : from_->step};
  KINORA_RETURN_IF_ERROR(ShareFromRankZero(exec, fits, absl::MakeSpan(numbers)));
  start_ = {.stage = numbers[0], .step = numbers[1]};
  return absl::OkStatus();
}

// Whether the resume point lies behind the stage and holds all that it computes.
bool Generation::PassesOver(const StagePlan& stage) const {
  return IsHeldLater(stage.kind) && start_.step > 0 && IndexOf(stage) < start_.stage;
}

// Leaves memory and noise as after the stage, but computes no latents: the resume point has what later stages read.
absl::Status Generation::PassOver(Exec& exec, const StagePlan& stage) {
  if (stage.kind == StageKind::kUpsample) return Upsample(exec, stage);
  KINORA_RETURN_IF_ERROR(Begin(exec, stage));
  KeepSound(exec, stage);
  return absl::OkStatus();
}

// Adds the sound that an earlier stage finished, if this stage does not work on it.
CarriedTensors Generation::WithKeptSound(CarriedTensors carried) const {
  if (sound_is_apart_) carried.push_back({"sound", sound_});
  return carried;
}

absl::Status Generation::Keep(Exec& exec, const StagePlan& stage, int64_t step, const CarriedTensors& carried) {
  if (exec.ops.dry() && step == 0) {
    for (const auto& [name, tensor] : WithKeptSound(carried)) {
      carried_[IndexOf(stage)].push_back({name, tensor.shape()});
    }
  }
  const Progress progress{
      .stage = stage.stage(), .step = static_cast<int32_t>(step + 1), .total_steps = static_cast<int32_t>(stage.steps)};
  if (observer_ == nullptr || !observer_->WantsResumePoint(progress)) return absl::OkStatus();
  ResumePoint point{.stage = IndexOf(stage), .step = step + 1};
  KINORA_RETURN_IF_ERROR(TakeValues(exec, WithKeptSound(carried), point));
  observer_->OnResumePoint(std::move(point));
  return absl::OkStatus();
}

ClipInfo Generation::Info() const {
  ClipInfo info{.audio_channels = static_cast<int32_t>(modules_.vocoder->channels())};
  if (plan_.denoised.video) {
    info.width = request_.width;
    info.height = request_.height;
    info.num_frames = request_.num_frames;
    info.frame_rate = request_.frame_rate;
  }
  if (plan_.denoised.audio) {
    info.audio_sample_rate = static_cast<int32_t>(modules_.vocoder->sample_rate());
    info.audio_samples = modules_.vocoder->Samples(modules_.audio->MelRows(plan_.audio_latents));
  } else {
    info.audio_sample_rate = static_cast<int32_t>(plan_.given_sound.sample_rate);
    info.audio_samples = plan_.given_sound.samples;
  }
  return info;
}

// Returns the given sound unchanged as [channels, samples]. A mono sound is repeated for every channel.
std::vector<float> Generation::GivenSound() const {
  const AudioClip& sound = *request_.audio->audio;
  const SoundSpan& span = plan_.given_sound;
  std::vector<float> heard;
  for (int64_t c = 0; c < modules_.vocoder->channels(); ++c) {
    const auto first = sound.waveform.begin() + std::min(c, sound.channels - 1) * sound.samples + span.begin;
    heard.insert(heard.end(), first, first + span.samples);
  }
  return heard;
}

// Runs before the first stage that writes to the sink. Given sound is written at once.
absl::Status Generation::OpenClip(Exec& exec) {
  KINORA_RETURN_IF_ERROR(ReportAudioLatent(exec));
  KINORA_RETURN_IF_ERROR(ReportVideoLatent(exec));
  if (sink_ == nullptr) return absl::OkStatus();
  const ClipInfo info = Info();
  KINORA_RETURN_IF_ERROR(sink_->Begin(info));
  if (plan_.denoised.audio) return absl::OkStatus();
  std::vector<float> sound = GivenSound();
  return sink_->Audio(Tensor(DType::kF32, {info.audio_channels, info.audio_samples}, sound.data()));
}

Tensor Generation::VideoLatent() const {
  return z_.video.z.Rows(0, grid_.tokens()).Reshape({grid_.frames, grid_.height, grid_.width, z_.video.z.width()});
}

void Generation::ReserveNoise(Exec& exec) {
  decoder_noise_.emplace(exec, noise_.source(), request_.noise, modules_.video->NoiseDraws(plan_.tiles));
}

// Begins the noise of this rank's first tile once no denoising stage draws any more.
void Generation::DrawAhead(Exec& exec) {
  const Communicator& world = exec.mesh.world();
  const auto draw = VideoDecodeStage::FirstDraw(plan_.tiles, decoder_noise_->draws(), world.rank(), world.size());
  if (draw.has_value()) decoder_noise_->DrawAhead(*draw);
}

absl::Status Generation::DecodeVideo(Exec& exec, const StagePlan& stage, OnStep on_step) {
  const Tensor latent = VideoLatent();
  const auto emit = [&](const DecodedFrames& frames) {
    if (inspected()) KINORA_RETURN_IF_ERROR(observer_->FloatFrames(frames.first, frames.rgb));
    return sink_->Frames(frames.first, frames.rgb8);
  };
  const auto progress = [&](int64_t done, int64_t) {
    if (done == 0) return absl::OkStatus();
    if (sink_ != nullptr) KINORA_RETURN_IF_ERROR(sink_->Failure());
    return on_step(stage, done, nullptr);
  };
  const auto work = [this] { return observer_ == nullptr ? absl::OkStatus() : observer_->OnWork(); };
  ArenaScope host(exec.host);
  if (!decoder_noise_.has_value()) ReserveNoise(exec);
  const absl::Cleanup made = [this] { decoder_noise_.reset(); };  // before its memory is released
  const auto draw = [&](bool wanted) { return decoder_noise_->Take(exec, wanted); };
  return VideoDecodeStage(*modules_.video)
      .Run(exec, plan_.tiles, latent, draw, {.emit = emit, .progress = progress, .work = work, .floats = inspected()});
}

absl::Status Generation::DecodeAudio(Exec& exec) {
  ArenaScope scope(exec.arena);
  const Shape mel_shape = modules_.audio->OutputShape(plan_.audio_latents);
  Tensor mel = scope.Alloc(DType::kF32, mel_shape);
  Tensor waveform = scope.Alloc(DType::kF32, {modules_.vocoder->channels(), modules_.vocoder->Samples(mel_shape[1])});
  modules_.audio->Forward(exec, sound_, mel);
  modules_.vocoder->Forward(exec, mel, waveform);
  ArenaScope host_scope(exec.host);
  const Tensor host = exec.ops.stream().HostSide(waveform, host_scope);
  if (exec.ops.dry()) return absl::OkStatus();
  exec.ops.stream().CopyToHost(waveform, host.raw());
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  return sink_->Audio(host);
}

absl::Status Generation::RunStage(Exec& exec, const StagePlan& stage, OnStep on_step) {
  std::optional<TraceSpan> span;
  if (!exec.ops.dry()) span.emplace("stage", stage.stage().name().data());
  const EnqueueRange range(exec, stage.stage().name().data());
  const bool gives = stage.kind == StageKind::kDecodeVideo || stage.kind == StageKind::kDecodeAudio;
  if (gives && !std::exchange(opened_, true)) {
    KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&] { return OpenClip(exec); }));
  }
  switch (stage.kind) {
    case StageKind::kEncode:
      return Encode(exec);
    case StageKind::kEncodeInputs:
      return EncodeInputs(exec, stage, on_step);
    case StageKind::kEncodeAudio:
      return EncodeGivenSound(exec);
    case StageKind::kDenoise:
      KINORA_RETURN_IF_ERROR(Denoise(exec, stage, on_step));
      KeepSound(exec, stage);
      return absl::OkStatus();
    case StageKind::kUpsample:
      return Upsample(exec, stage);
    case StageKind::kDecodeVideo:
      return DecodeVideo(exec, stage, on_step);
    case StageKind::kDecodeAudio:
      return OnRankZero(exec, [&] { return DecodeAudio(exec); });
    case StageKind::kReadInputs:
    case StageKind::kPutOnLoras:
    case StageKind::kFinalize:
      break;
  }
  return absl::InternalError("a stage that no plan has");
}

absl::Status Generation::Measured(Exec& exec, Stage stage, absl::FunctionRef<absl::Status()> run) {
  const absl::Time begin = Clock::Steady().Now();
  const double waited = exec.mesh.WaitSeconds(), idle = exec.ops.stream().idle_seconds();
  const GraphMisses missed = graphs_.misses();
  absl::Status status = run();
  const double wait = exec.mesh.WaitSeconds() - waited;
  GraphMisses misses = graphs_.misses();
  for (size_t i = 0; i < misses.size(); ++i) misses[i] -= missed[i];
  uses_.push_back({.stage = stage,
                   .seconds = absl::ToDoubleSeconds(Clock::Steady().Now() - begin),
                   .wait_seconds = wait,
                   .idle_seconds = wait + exec.ops.stream().idle_seconds() - idle,
                   .graph_misses = misses});
  return status;
}

absl::Status Generation::PutOnLoras(Exec& exec, const StagePlan& stage, OnStep on_step) {
  const bool bears = stage.kind == StageKind::kEncode || stage.kind == StageKind::kDenoise;
  if (!bears || modules_.adapters == nullptr) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(const Adapters::Fit fit, modules_.adapters->FitOf(exec, stage.loras));
  if (stage.kind == StageKind::kEncode) text_key_ = fit.text_key;
  if (fit.worn) return absl::OkStatus();
  const bool told = exec.mesh.world().rank() == 0;
  KINORA_RETURN_IF_ERROR(AgreeWithRankZero(exec, told ? on_step(stage, kLorasGoOn, nullptr) : absl::OkStatus()));
  const auto on_weight = [this] { return observer_ == nullptr ? absl::OkStatus() : observer_->OnWork(); };
  return Measured(exec, kPutOnLoras, [&] { return modules_.adapters->PutOn(exec, stage.loras, on_weight); });
}

absl::Status Generation::RunWithLoras(Exec& exec, const StagePlan& stage, OnStep on_step) {
  const bool told = exec.ops.dry() || exec.mesh.world().rank() == 0;
  KINORA_RETURN_IF_ERROR(PutOnLoras(exec, stage, on_step));
  KINORA_RETURN_IF_ERROR(AgreeWithRankZero(exec, told ? on_step(stage, 0, nullptr) : absl::OkStatus()));
  return Measured(exec, stage.stage(), [&] { return RunStage(exec, stage, on_step); });
}

absl::StatusOr<int32_t> Generation::ChooseFrames(Exec& exec, OnStep on_step) {
  ArenaScope request(exec.arena);
  KINORA_RETURN_IF_ERROR(RunWithLoras(exec, plan_.stages[0], on_step));
  KINORA_RETURN_IF_ERROR(PredictFrames(exec));
  return static_cast<int32_t>(frames_);
}

absl::Status Generation::Run(Exec& exec, OnStep on_step) {
  ArenaScope request(exec.arena), host(exec.host);
  const absl::Cleanup ended = [this] { decoder_noise_.reset(); };  // before its memory is released
  KINORA_RETURN_IF_ERROR(FindStart(exec));
  if (!exec.backend.traits().unified_memory && plan_.denoised.video) ReserveNoise(exec);
  for (const StagePlan& stage : plan_.stages) {
    if (PassesOver(stage)) {
      KINORA_RETURN_IF_ERROR(PassOver(exec, stage));
      continue;
    }
    KINORA_RETURN_IF_ERROR(RunWithLoras(exec, stage, on_step));
  }
  return OnRankZero(exec, [&] { return sink_ != nullptr ? sink_->End() : absl::OkStatus(); });
}

}  // namespace kinora

// One planned run on one rank, from start to finish. Real runs and dry runs use the same code.
#ifndef KINORA_ENGINE_PIPELINE_GENERATION_H_
#define KINORA_ENGINE_PIPELINE_GENERATION_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/diffusion/latent_state.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/decoder_noise.h"
#include "engine/pipeline/modules.h"
#include "engine/pipeline/noise_draws.h"
#include "engine/pipeline/resume_point.h"
#include "engine/pipeline/rope_tables.h"
#include "engine/pipeline/run_observer.h"
#include "engine/pipeline/run_plan.h"
#include "engine/pipeline/stage_use.h"
#include "engine/pipeline/step_graphs.h"
#include "engine/pipeline/velocity_model.h"

namespace kinora {

class Generation {
 public:
  // Called at the start of a stage of the plan (step 0), after each of its steps, and, with kLorasGoOn, before a stage
  // that needs other LoRAs in the weights. latents: of a denoising step, if the observer wants them; otherwise null.
  // Called on rank 0 only, except that a dry run reports step 0 on every rank.
  static constexpr int64_t kLorasGoOn = -1;
  using OnStep = absl::FunctionRef<absl::Status(const StagePlan& stage, int64_t step, const StepLatents* latents)>;

  // sink, observer and from: null on ranks other than 0 and in a dry run. observer: may be null; progress is reported
  // to on_step instead. from: may be null; else the state that the run continues from. All arguments must outlive the
  // object.
  Generation(const ModelConfig& config, const Modules& modules, StepGraphs& graphs, RopeTables& ropes,
             const RunPlan& plan, ClipSink* sink, RunObserver* observer, const ResumePoint* from = nullptr)
      : config_(config),
        modules_(modules),
        graphs_(graphs),
        ropes_(ropes),
        plan_(plan),
        request_(plan.request),
        sink_(sink),
        observer_(observer),
        from_(from),
        noise_(config, plan),
        carried_(plan.stages.size()) {}

  // Fails with InvalidArgument, naming the tensor, if given noise or the resume point has another shape than the
  // request needs.
  absl::Status Run(Exec& exec, OnStep on_step);
  // For a plan with open_length, runs only its first stage, which encodes the prompts, and returns the number of frames
  // that the model chooses for them. Keeps the contexts in the text encoder's cache.
  absl::StatusOr<int32_t> ChooseFrames(Exec& exec, OnStep on_step);
  // Times of the stages that have ended, including one that failed.
  const std::vector<StageUse>& uses() const { return uses_; }
  // StagePlan::carried of each stage, after a dry run.
  const std::vector<std::vector<CarriedShape>>& carried() const { return carried_; }

 private:
  struct Start {
    int64_t stage = 0, step = 0;  // as in ResumePoint; step 0: the run begins at its beginning
  };
  absl::Status Measured(Exec& exec, Stage stage, absl::FunctionRef<absl::Status()> run);
  absl::Status PutOnLoras(Exec& exec, const StagePlan& stage, OnStep on_step);
  absl::Status RunStage(Exec& exec, const StagePlan& stage, OnStep on_step);
  absl::Status RunWithLoras(Exec& exec, const StagePlan& stage, OnStep on_step);
  absl::Status Encode(Exec& exec);
  absl::Status PredictFrames(Exec& exec);
  absl::Status EncodeInputs(Exec& exec, const StagePlan& stage, OnStep on_step);
  absl::Status EncodeSound(Exec& exec, const AudioClip* sound, const SoundSpan& span, const Tensor& latent);
  absl::Status EncodeGivenSound(Exec& exec);
  Tensor AllocAudio(Exec& exec) const;
  absl::Status EncodeGuides(Exec& exec, const StagePlan& stage, OnStep on_step);
  LatentState AllocVideo(Exec& exec, const StagePlan& stage) const;
  absl::Status Begin(Exec& exec, const StagePlan& stage);
  void AllocDenoised(Exec& exec, const StagePlan& stage);
  void Hold(Exec& exec, const StagePlan& stage);
  bool IsLast(const StagePlan& stage) const;
  void KeepSound(Exec& exec, const StagePlan& stage);
  absl::Status Upsample(Exec& exec, const StagePlan& stage);
  absl::Status FindStart(Exec& exec);
  bool Resumes(const StagePlan& stage) const { return start_.step > 0 && IndexOf(stage) == start_.stage; }
  bool PassesOver(const StagePlan& stage) const;
  absl::Status PassOver(Exec& exec, const StagePlan& stage);
  CarriedTensors WithKeptSound(CarriedTensors carried) const;
  absl::Status Keep(Exec& exec, const StagePlan& stage, int64_t step, const CarriedTensors& carried);
  absl::StatusOr<std::vector<bool>> WatchedSteps(Exec& exec, int64_t steps) const;
  VelocityInputs InputsOf(const StagePlan& stage) const;
  absl::Status Denoise(Exec& exec, const StagePlan& stage, OnStep on_step);
  absl::Status OpenClip(Exec& exec);
  void ReserveNoise(Exec& exec);
  void DrawAhead(Exec& exec);
  absl::Status DecodeVideo(Exec& exec, const StagePlan& stage, OnStep on_step);
  absl::Status DecodeAudio(Exec& exec);

  absl::Status ReportText(Exec& exec);
  absl::Status ReportContexts(Exec& exec, const TextContext& context, std::string_view suffix);
  absl::Status ReportSigmas(const StagePlan& stage);
  absl::Status ReportAudioLatent(Exec& exec);
  absl::Status ReportVideoLatent(Exec& exec);
  Tensor VideoLatent() const;  // [frames, height, width, channels]
  ClipInfo Info() const;
  int64_t IndexOf(const StagePlan& stage) const { return &stage - plan_.stages.data(); }
  std::vector<float> GivenSound() const;
  bool guided() const { return plan_.guided(); }
  bool inspected() const { return observer_ != nullptr && observer_->WantsIntermediates(); }

  const ModelConfig& config_;
  const Modules& modules_;
  StepGraphs& graphs_;
  RopeTables& ropes_;
  const RunPlan& plan_;
  const GenerationRequest& request_;
  ClipSink* const sink_;
  RunObserver* const observer_;
  const ResumePoint* const from_;
  Start start_;
  NoiseDraws noise_;
  std::optional<DecoderNoise> decoder_noise_;
  TextContext cond_, uncond_;
  int64_t frames_ = 0;  // as the model chose them
  PerModality<LatentState> z_;
  LatentGrid grid_;                                         // of z_.video
  std::map<const StagePlan*, std::vector<Tensor>> guides_;  // latents of a denoising stage's guides
  Tensor sound_;                                            // the audio latent that is decoded
  bool sound_is_apart_ = false;                             // a later stage works on a copy of it
  Tensor held_sound_;                                       // audio latent of a retake's clip
  bool begun_ = false, opened_ = false;                     // the first denoising stage; the clip
  std::string text_key_;                                    // cache key of contexts encoded with the current LoRAs
  std::vector<StageUse> uses_;
  std::vector<std::vector<CarriedShape>> carried_;  // by stage; empty except in a dry run
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_GENERATION_H_

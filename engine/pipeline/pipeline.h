// A loaded model on one rank. Turns a request into frames and sound.
//
//   KINORA_ASSIGN_OR_RETURN(const RunPlan needed, Pipeline::Plan(options, mesh, largest_request));  // loads nothing
//   options.arena_bytes = needed.arena_bytes;
//   KINORA_ASSIGN_OR_RETURN(auto pipeline, Pipeline::Load(options, mesh));
//   KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
//   KINORA_RETURN_IF_ERROR(pipeline->Generate(plan, &sink, &observer));
//
// Every rank of the mesh makes the same calls with equal arguments. Only rank 0 has a sink and an observer.
#ifndef KINORA_ENGINE_PIPELINE_PIPELINE_H_
#define KINORA_ENGINE_PIPELINE_PIPELINE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/config/model_config.h"
#include "engine/model/decoder_border.h"
#include "engine/ops/backend.h"
#include "engine/ops/clean_weights.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/latent_preview.h"
#include "engine/pipeline/resume_point.h"
#include "engine/pipeline/run_observer.h"
#include "engine/pipeline/run_plan.h"
#include "engine/pipeline/stage_use.h"
#include "engine/request/model_description.h"
#include "engine/request/request.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/lora.h"
#include "engine/weights/precision.h"

namespace kinora {

struct PipelineOptions {
  ModelFiles files;
  // Name of a released model (released_models.h), in place of `files`. Suffices for planning, not for loading.
  std::string released{};
  std::string device;  // as in OpenBackend
  Precision precision;
  int threads = 1;   // of this rank
  CudaFlags cuda{};  // as in BackendOptions
  // For activations, reserved at load and never grown. Generate rejects a plan that exceeds it.
  int64_t arena_bytes = 0;
  // Pinned host memory for copies of activations, and for noise. Unused if device memory is host memory.
  int64_t host_arena_bytes = 0;
  int64_t text_cache_bytes = 256 << 20;
  // For copies of weights without LoRAs, made by the first change of each weight. A weight that has none is read from
  // its file at each change. Unused if device memory is host memory.
  CleanMemory clean_weights{};
  // kEvicted: the text encoder's weights stay in pinned host memory and are copied to the device when a prompt is
  // encoded, into memory that later stages reuse. Unimplemented if BackendTraits::evicts_weights is false.
  Residence text_encoder = Residence::kResident;
  // Files of recently applied LoRAs, shared by all ranks of a process. Null: no cache.
  std::shared_ptr<FactorCache> lora_cache{};
  // False: the video and audio encoders are not loaded, and no request may have pictures or sound as input.
  bool inputs = true;
  // kSound: the video modules are not loaded, and every request must be for sound only.
  Modalities modalities = Modalities::kBoth;
  DecoderBorder decoder_border = DecoderBorder::kShift;  // of the diffusion decoder
  // Clips are decoded whole: other pixels, fewer operations, more memory, and no work for ranks other than 0.
  bool untiled_decode = false;
};

// Number of ranks that share one rank's memory: all ranks of the mesh if it is host memory, 1 if it is a device's own.
int RanksPerMemory(const BackendTraits& traits, const Mesh& mesh);

class Pipeline {
 public:
  // Reads, checks and packs every weight. Fails with InvalidArgument or NotFound, naming the tensor or field, or with
  // ResourceExhausted. Calls on_phase with the name of each phase ("read config", "load transformer") as it starts.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Load(
      const PipelineOptions& options, const Mesh& mesh,
      absl::FunctionRef<void(std::string_view phase)> on_phase = [](std::string_view) {});
  // Like Load, on a backend that the caller opened. Ignores options.device, options.threads and options.cuda.
  static absl::StatusOr<std::unique_ptr<Pipeline>> LoadOn(
      std::unique_ptr<Backend> backend, const PipelineOptions& options, const Mesh& mesh,
      absl::FunctionRef<void(std::string_view phase)> on_phase = [](std::string_view) {});
  // Returns the description() of the model. Reads only headers and configuration.
  static absl::StatusOr<ModelDescription> DescribeFiles(const PipelineOptions& options);
  // Returns the effective request (request_rules.h), for callers that read a request's inputs before planning it. Reads
  // only headers and configuration. Fails with InvalidArgument naming the field.
  static absl::StatusOr<GenerationRequest> Resolve(const PipelineOptions& options, const GenerationRequest& request);
  // Returns the stages, costs and memory of the request on this rank. Reads only headers and configuration. Fails with
  // InvalidArgument or Unimplemented, naming the field of the request.
  static absl::StatusOr<RunPlan> Plan(const PipelineOptions& options, const Mesh& mesh,
                                      const GenerationRequest& request);
  // Like Plan, for a backend with these traits. Ignores options.device and options.threads.
  static absl::StatusOr<RunPlan> PlanOn(const BackendTraits& traits, const PipelineOptions& options, const Mesh& mesh,
                                        const GenerationRequest& request);
  // Like Plan, but chooses where the text encoder's weights reside: on the device if the request then fits `memory`
  // (this rank's share of the device), otherwise in host memory if the backend can evict weights. Sets
  // options.text_encoder, and the arena sizes to those of the plan. The caller must check RunPlan::FitsDevice.
  static absl::StatusOr<RunPlan> PlanWithin(const MemoryLimit& memory, const Mesh& mesh,
                                            const GenerationRequest& request, PipelineOptions& options);
  // Like PlanWithin, for a worker that serves many requests: the default request decides about the text encoder, the
  // arenas are sized for the largest clips (memory_plan.h), and what they leave of the device is for clean_weights.
  // Returns the default request's plan. Fails with ResourceExhausted if the device cannot hold the model and its
  // smallest clip.
  static absl::StatusOr<RunPlan> PlanMemory(const MemoryLimit& memory, const Mesh& mesh, PipelineOptions& options);
  ~Pipeline();

  const ModelConfig& config() const;
  // Limits, recipes and defaults, for validating requests elsewhere. max_tokens is 0. Thread-safe.
  ModelDescription description() const;
  // The LoRAs that requests may name now, initially those of options.files. Includes the distilled LoRA. loras,
  // SetLoras and OpenLora are thread-safe.
  Loras loras() const;
  // Replaces loras(), as LoraList::Replace does. Each LoRA must come from OpenLora or loras(), and the distilled LoRA
  // must stay among them.
  void SetLoras(Loras loras);
  // Like Lora::Open, for this model's checkpoint.
  absl::StatusOr<std::shared_ptr<const Lora>> OpenLora(std::shared_ptr<const SafetensorsFile> file,
                                                       LoraOptions options) const;
  // As in memory_plan.h, for the reserved memory.
  absl::StatusOr<int64_t> MaxTokens() const;
  absl::StatusOr<int32_t> MostFrames(const GenerationRequest& request) const;
  absl::StatusOr<std::optional<ClipShape>> NearestThatFits(const GenerationRequest& request) const;

  CleanMemory clean_weights() const;  // in use
  int64_t peak_arena_bytes() const;   // of activations in the last Generate
  // Times of the stages of the last Generate on this rank, up to and including a stage that failed.
  const std::vector<StageUse>& last_run() const;
  int64_t captures() const;  // steps since Load; a request of a recently used shape adds none
  // Denoising stages since Load whose rotation tables were computed; those of recent stages are kept (rope_tables.h).
  int64_t rope_tables_made() const;

  // Like Plan, for the loaded model: one dry run of the whole request. Thread-safe, also while Generate runs. Also
  // fails with FailedPrecondition if a LoRA's file is not the one that the request was made for.
  absl::StatusOr<RunPlan> Prepare(const GenerationRequest& request) const;
  // Does the one-time work for the plan's shapes (one_time_work.h) that has not been done yet, on all threads of this
  // rank. Generate does it too. plan: from Prepare.
  void DoAhead(const RunPlan& plan);

  // Encodes the prompts of a plan with open_length and returns the number of frames that the model chooses, with which
  // to call Prepare again (WithFrames). Arguments and errors: as in Generate.
  absl::StatusOr<int32_t> ChooseFrames(const RunPlan& plan, RunObserver* observer);
  // plan: from Prepare of this pipeline, or of rank 0 of the same mesh, which needs the most memory; without
  // open_length. sink: null on ranks other than 0. observer: may be null; called on rank 0 only. from: null, or on rank
  // 0 the point of an earlier run of an equal plan, behind which this run begins; InvalidArgument if it cannot be of
  // such a run. Fails with ResourceExhausted if the plan exceeds the reserved memory, or with an error of the observer
  // or sink, at the latest by the next step. All ranks agree on these failures (agree.h): they leave at the same point,
  // and the pipeline stays usable. A pipeline of a single rank stays usable after any error.
  absl::Status Generate(const RunPlan& plan, ClipSink* sink, RunObserver* observer, const ResumePoint* from = nullptr);

  // Runs FitLatentToRgb (latent_preview.h) in the reserved memory or, if that is too small, in memory of its own. Must
  // not overlap Generate; any rank may call it alone. Fails with FailedPrecondition if the video decoder is not loaded,
  // or with ResourceExhausted.
  absl::StatusOr<LatentToRgb> FitLatentToRgb(absl::FunctionRef<absl::Status()> on_draw = &absl::OkStatus);

  // The functions of agree.h. Every rank must call them, not during Generate.
  absl::Status Agree(const absl::Status& status);
  absl::Status ShareFromRankZero(const absl::Status& status, absl::Span<int64_t> numbers);
  // The function of gather_trace.h. Every rank of a mesh of processes must call it, after Generate.
  absl::Status GatherTrace();

 private:
  struct Parts;
  explicit Pipeline(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_PIPELINE_H_

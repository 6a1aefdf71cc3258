// A loaded model on one rank, and one request from prompt to frames and sound.
//
//   KINORA_ASSIGN_OR_RETURN(const RunPlan needed, Pipeline::Plan(options, mesh, largest_request));  // loads nothing
//   options.arena_bytes = needed.arena_bytes;
//   KINORA_ASSIGN_OR_RETURN(auto pipeline, Pipeline::Load(options, mesh));
//   KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
//   KINORA_RETURN_IF_ERROR(pipeline->Generate(plan, &sink, &observer));
//
// Every rank of the mesh makes the same calls with equal arguments; rank 0 alone has a sink and an observer.
#ifndef KINORA_ENGINE_PIPELINE_PIPELINE_H_
#define KINORA_ENGINE_PIPELINE_PIPELINE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/config.h"
#include "engine/ops/backend.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/latent_preview.h"
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
  // Instead of files, for plans alone: a released model (released_models.h).
  std::string released{};
  std::string device;  // as OpenBackend takes it
  Precision precision;
  int threads = 1;  // of this rank
  // Memory for activations, reserved at load and never grown. A request whose plan exceeds it is refused. Untouched
  // pages of it cost nothing.
  int64_t arena_bytes = 0;
  // The same for the host's side of them, where device memory is not host memory.
  int64_t host_arena_bytes = 0;
  int64_t text_cache_bytes = 256 << 20;
  // Evicted: the text encoder's weights lie in pinned host memory, and come to the device, into memory that the later
  // stages use too, when a prompt is encoded. Unimplemented where BackendTraits::evicts_weights is false.
  Residence text_encoder = Residence::kResident;
  // Of LoRAs that were put on lately, for all ranks of a process; null: none is kept.
  std::shared_ptr<FactorCache> lora_cache{};
  // False: no encoder of pictures and sound is loaded, and no request may give one.
  bool inputs = true;
  // kSound: nothing of the picture is loaded, and every request is of sound alone.
  Streams streams = Streams::kBoth;
};

// How many ranks of the mesh share the memory that one of them sees: all where it is the host's; a device is one
// rank's.
int RanksPerMemory(const BackendTraits& traits, const Mesh& mesh);

class Pipeline {
 public:
  // Reads, checks and packs every weight. InvalidArgument or NotFound naming the tensor or field; ResourceExhausted.
  // on_phase, if given, is called at the start of "read config", "load transformer", … with the phase's name.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Load(
      const PipelineOptions& options, const Mesh& mesh,
      absl::FunctionRef<void(std::string_view phase)> on_phase = [](std::string_view) {});
  // The same on a backend that the caller opened; options.device and threads are not read.
  static absl::StatusOr<std::unique_ptr<Pipeline>> LoadOn(
      std::unique_ptr<Backend> backend, const PipelineOptions& options, const Mesh& mesh,
      absl::FunctionRef<void(std::string_view phase)> on_phase = [](std::string_view) {});
  // As description(), of headers and configuration only.
  static absl::StatusOr<ModelDescription> DescribeFiles(const PipelineOptions& options);
  // The effective request (request_rules.h), for whoever reads the inputs that it names before it is planned; reads
  // headers and configuration only. InvalidArgument naming the field.
  static absl::StatusOr<GenerationRequest> Resolve(const PipelineOptions& options, const GenerationRequest& request);
  // What the request will do and take on this rank; reads headers and configuration only. InvalidArgument or
  // Unimplemented, naming the field of the request.
  static absl::StatusOr<RunPlan> Plan(const PipelineOptions& options, const Mesh& mesh,
                                      const GenerationRequest& request);
  static absl::StatusOr<RunPlan> PlanOn(const BackendTraits& traits, const PipelineOptions& options, const Mesh& mesh,
                                        const GenerationRequest& request);
  // Plan, with the text encoder resident if the request so fits `memory`, this rank's share of the device, and evicted
  // where it does not and can be. Sets options.text_encoder, and the arenas to what the request takes; that it fits is
  // for the caller to see (RunPlan::FitsDevice).
  static absl::StatusOr<RunPlan> PlanWithin(const MemoryLimit& memory, const Mesh& mesh,
                                            const GenerationRequest& request, PipelineOptions& options);
  // The same for a worker of many requests: the text encoder by the default request, whose plan it returns, and the
  // arenas so that the largest clips fit (memory_plan.h). ResourceExhausted if the device cannot hold the model and its
  // smallest clip.
  static absl::StatusOr<RunPlan> PlanMemory(const MemoryLimit& memory, const Mesh& mesh, PipelineOptions& options);
  ~Pipeline();

  const ModelConfig& config() const;
  // Limits, recipes and defaults, for deciding on requests elsewhere; max_tokens is left 0. Thread-safe.
  ModelDescription description() const;
  // The LoRAs that requests may name now: at first those of options.files. The distilled one is among them, and stays.
  // Thread-safe, as is all that concerns them.
  Loras loras() const;
  // In their place, as lora_list.h. Those that PutOn is to find must be of OpenLora or of loras().
  void SetLoras(Loras loras);
  // As Lora::Open, for this model.
  absl::StatusOr<std::shared_ptr<const Lora>> OpenLora(std::shared_ptr<const SafetensorsFile> file,
                                                       LoraOptions options) const;
  // Largest number of video tokens that fit the reserved memory, along clips of growing length at the default size and
  // then of growing size; 0: no request within the other limits is too large.
  absl::StatusOr<int64_t> MaxTokens() const;
  // Most frames at the size of a resolved request that fit the reserved memory; 0: none.
  absl::StatusOr<int32_t> MostFrames(const GenerationRequest& request) const;
  absl::StatusOr<std::optional<ClipShape>> NearestThatFits(const GenerationRequest& request) const;  // memory_plan.h

  // Most activation memory that the last Generate had in use at once.
  int64_t peak_arena_bytes() const;
  // What the stages of the last Generate took on this rank, as far as it came.
  const std::vector<StageUse>& last_run() const;
  // Steps captured since Load: a request of a shape that was seen lately adds none.
  int64_t captures() const;

  // The same as Plan, for the loaded model: one dry run of the whole request. Thread-safe, also while Generate runs.
  // FailedPrecondition besides: a LoRA's file is not the one that the request was taken for.
  absl::StatusOr<RunPlan> Prepare(const GenerationRequest& request) const;

  // plan: of this pipeline's Prepare, or of that of rank 0 of the same mesh, which takes the most memory. sink: null on
  // ranks other than 0, where the observer is not called; observer may be null. ResourceExhausted if the plan exceeds
  // the reserved memory; whatever observer or sink returned, by the next step at the latest. These are agreed
  // (agree.h): the other ranks leave at the same place, and the pipeline can be used again; alone it can after any
  // error.
  absl::Status Generate(const RunPlan& plan, ClipSink* sink, RunObserver* observer);

  // Between two Generates, by any rank alone: as latent_preview.h, in the reserved memory, or where that is too small
  // in memory of its own. FailedPrecondition if nothing of the picture is loaded; ResourceExhausted.
  absl::StatusOr<LatentToRgb> FitLatentToRgb(absl::FunctionRef<absl::Status()> on_draw = &absl::OkStatus);

  // Between two Generates, by every rank: as agree.h.
  absl::Status Agree(const absl::Status& status);
  absl::Status ShareFromRankZero(const absl::Status& status, absl::Span<int64_t> numbers);

  // After a Generate, by every rank of a mesh of processes: as gather_trace.h.
  absl::Status GatherTrace();

 private:
  struct Parts;
  explicit Pipeline(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_PIPELINE_H_

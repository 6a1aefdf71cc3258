// The engine's Pipeline as a Model, composed of the ranks of its group (model_ranks.h), their memory (worker_memory.h),
// the warm-up (warm_up.h), reports on runs (run_reports.h), previews and LoRAs.
#ifndef KINORA_SERVER_WORKER_PIPELINE_MODEL_H_
#define KINORA_SERVER_WORKER_PIPELINE_MODEL_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/pipeline.h"
#include "engine/pipeline/resume_file.h"
#include "kinora/v1/config.pb.h"
#include "server/common/metrics.h"
#include "server/worker/collective_metrics.h"
#include "server/worker/lora_watch.h"
#include "server/worker/model.h"
#include "server/worker/model_digests.h"
#include "server/worker/model_ranks.h"
#include "server/worker/pipeline_previews.h"
#include "server/worker/rank.h"
#include "server/worker/speed.h"
#include "server/worker/worker_memory.h"

namespace kinora {

class PipelineModel : public Model {
 public:
  // Loads and warms up the model on the group's ranks in this process: all of them in a group of one process, else the
  // rank that this process is. Calls on_progress after each step of the warm-up, where the load does something other
  // than read files. Fails with InvalidArgument or NotFound naming the field of the configuration, the file or the
  // tensor; with Unimplemented naming the device or precision; with ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const v1::WorkerConfig& config, const RankContext& rank,
                                                     WorkerMetrics& metrics, const std::function<void()>& on_progress);

  v1::Ready Describe() const override;
  void SetListener(const std::function<void(const v1::ModelInfo&)>& changed) override;
  absl::StatusOr<PreparedRun> Prepare(const v1::Generation& generation) const override;
  absl::StatusOr<PreparedRun> PrepareRun(const v1::Generation& generation, const ReadRequest& read,
                                         RunObserver& observer) override;
  v1::Estimate Estimate(const PreparedRun& run) const override;
  v1::Resolved Resolve(const PreparedRun& run) const override;
  double ExpectedSeconds(const PreparedRun& run, Stage stage) const override;
  absl::Status Generate(const PreparedRun& run, ClipSink* sink, RunObserver* observer, v1::Usage& usage) override;
  absl::Status PreparePreviews(const GoOn& go_on) override;
  absl::StatusOr<PreviewPicture> Preview(const StepLatents& latents) override;
  std::string ResumeFileOf(const PreparedRun& run, ResumePoint&& point) const override;
  int64_t MostResumeFileBytes(const PreparedRun& run) const override;
  absl::StatusOr<ResumePoint> ReadResumeFile(const PreparedRun& run, std::string_view file) const override;
  absl::StatusOr<std::string> EndTrace() override;
  void Observe(const v1::RunSpeed& run) override { speed_.Observe(run); }
  void Remember(const v1::SpeedHistory& past) override { speed_.Remember(past); }

 private:
  PipelineModel(std::unique_ptr<CollectiveMetrics> collectives, std::vector<std::unique_ptr<Mesh>> meshes,
                const RankContext& group);
  absl::Status LoadRanks(const PipelineOptions& options, double memory_share, WorkerMetrics& metrics);
  // Sets ready_ but for load times and the digests of the model's files. Returns the digests of the LoRAs that the
  // configuration names.
  absl::StatusOr<ModelDigests::Map> FillReady(const v1::WorkerConfig& config, const PipelineOptions& options);
  InputLimits LimitsOf(const GenerationRequest& request) const;
  RunFingerprint Fingerprint(const PreparedRun& run) const;

  std::unique_ptr<CollectiveMetrics> collectives_;  // observes the meshes, which it must outlive
  ModelRanks ranks_;
  WorkerMemory memory_;
  double full_distilled_strength_ = 1;  // plans hold fractions of it
  ModelDescription description_;        // of the pipeline, with the max_tokens that fit its memory
  v1::Ready ready_;
  std::string machine_;  // of all ranks, as in a fingerprint
  PipelinePreviews previews_;
  Speed speed_;
  std::unique_ptr<LoraWatch> loras_;  // last, because its listener reads the other members
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PIPELINE_MODEL_H_

// The engine's Pipeline as a Model: loaded from a worker's configuration, on all ranks of the group, which are threads
// of this process, or on one of them, where each is a process; warmed by a small render whose speed is the first word
// on how long requests take.
#ifndef KINORA_SERVER_WORKER_PIPELINE_MODEL_H_
#define KINORA_SERVER_WORKER_PIPELINE_MODEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/pipeline.h"
#include "kinora/v1/config.pb.h"
#include "server/common/metrics.h"
#include "server/worker/collective_metrics.h"
#include "server/worker/lora_watch.h"
#include "server/worker/model.h"
#include "server/worker/rank.h"
#include "server/worker/speed.h"

namespace kinora {

class PipelineModel : public Model {
 public:
  // InvalidArgument or NotFound naming the field of the configuration, the file or the tensor; Unimplemented naming
  // what is not available yet (device, precision); ResourceExhausted.
  // `on_progress` after each step of the warm-up: what the load does besides reading.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const v1::WorkerConfig& config, const RankContext& rank,
                                                     WorkerMetrics& metrics, const std::function<void()>& on_progress);

  // The same errors, as far as the device's name and the headers and configuration of the files say. Reads no weights.
  static absl::Status Check(const v1::WorkerConfig& config);

  // Of the headers and configuration alone: what Describe's model will be, but for the digests of its files and the
  // tokens that the memory takes (max_tokens 0).
  static absl::StatusOr<v1::ModelInfo> DescribeFiles(const v1::WorkerConfig& config);

  v1::Ready Describe() const override;
  void SetListener(std::function<void(const v1::ModelInfo&)> changed) override;
  absl::StatusOr<PreparedRun> Prepare(const v1::Generation& generation) const override;
  absl::StatusOr<PreparedRun> PrepareRun(const v1::Generation& generation, const ReadRequest& read,
                                         const GoOn& go_on) override;
  v1::Estimate Estimate(const PreparedRun& run) const override;
  v1::Resolved Resolve(const PreparedRun& run) const override;
  double ExpectedSeconds(const PreparedRun& run, const std::string& stage) const override;
  absl::Status Generate(const PreparedRun& run, ClipSink* sink, RunObserver* observer, v1::Usage& usage) override;
  absl::Status PreparePreviews(const GoOn& go_on) override;
  absl::StatusOr<PreviewPicture> Preview(const StepLatents& latents) override;
  absl::StatusOr<std::string> EndTrace() override;
  void Observe(const v1::RunSpeed& run) override { speed_.Observe(run); }
  void Remember(const v1::SpeedHistory& past) override { speed_.Remember(past); }

 private:
  struct Rank {
    std::unique_ptr<Mesh> mesh;
    std::unique_ptr<Pipeline> pipeline;
  };

  PipelineModel(std::vector<std::unique_ptr<Mesh>> meshes, const RankContext& group);
  static std::vector<Rank> ToRanks(std::vector<std::unique_ptr<Mesh>> meshes);
  absl::Status PlanArenas(double memory_share, PipelineOptions& options);
  absl::Status LoadRanks(const PipelineOptions& options, double memory_share, WorkerMetrics& metrics);
  absl::Status OnEveryRank(absl::FunctionRef<absl::Status(Rank&)> body);
  absl::Status Warm(const std::function<void()>& on_progress);
  // What the run took, as far as its stages of kind `last`.
  absl::StatusOr<v1::RunSpeed> WarmOnce(const RunPlan& plan, StageKind last, const std::function<void()>& on_progress);
  absl::Status ShareInputs(absl::Status status, GenerationRequest& request);
  // All ranks' statuses, of what each does by itself and may fail in alone.
  absl::Status AgreeOn(const absl::Status& status);
  absl::Status RunOnRanks(const RunPlan& plan, ClipSink* sink, RunObserver* observer);
  // Rank 0's answer on every rank: what it measured decides how the warm-up goes on.
  absl::StatusOr<bool> AgreeOnMore(int round, bool more);
  // The least of what the ranks bring.
  absl::StatusOr<int64_t> LeastOfRanks(const std::string& key, int64_t own);
  bool leads() const { return ranks_[0].mesh->world().rank() == 0; }
  // The digests of the LoRAs that the configuration names.
  absl::StatusOr<ModelDigests::Map> FillReady(const v1::WorkerConfig& config, const PipelineOptions& options);

  std::unique_ptr<CollectiveMetrics> collectives_;  // what the meshes tell
  std::vector<Rank> ranks_;                         // in this process
  Rendezvous& rendezvous_;                          // with those in others
  const AbortSignal::Listener lost_;
  std::string device_;                              // as OpenBackend names it
  double full_distilled_strength_ = 1;              // of which plans take a part
  int64_t arena_bytes_ = 0, host_arena_bytes_ = 0;  // reserved
  ModelDescription description_;                    // of rank 0's pipeline, with the tokens that fit its memory
  v1::Ready ready_;
  std::optional<LatentToRgb> preview_map_;  // once a run has asked for previews
  Speed speed_;
  std::unique_ptr<LoraWatch> loras_;  // last: it tells of the others
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PIPELINE_MODEL_H_

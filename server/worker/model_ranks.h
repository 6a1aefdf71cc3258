// The ranks of a worker group that live in this process, and how all ranks of the group act and agree together.
#ifndef KINORA_SERVER_WORKER_MODEL_RANKS_H_
#define KINORA_SERVER_WORKER_MODEL_RANKS_H_

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/pipeline.h"
#include "engine/processes/abort_signal.h"
#include "engine/processes/rendezvous.h"
#include "engine/request/request.h"
#include "server/worker/rank.h"

namespace kinora {

// Makes the meshes of the ranks in this process, in rank order: all ranks of the shape in a group of one process, else
// the rank that this process is. The shape must have passed CheckRanks (model_options.h). `data_interface`: as
// WorkerConfig.data_interface.
absl::StatusOr<std::vector<std::unique_ptr<Mesh>>> MakeMeshes(const MeshShape& shape, const std::string& device,
                                                              const std::string& data_interface,
                                                              const RankContext& group);

// Returns the Aborted error for a failure that is not agreed (agree.h): one rank failed alone, so the collectives of
// the group are aborted and stay so.
absl::Status FailedAlone(const absl::Status& status);

// One rank of the group in this process.
struct ModelRank {
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<Pipeline> pipeline;  // null before Load
};

// A method that says "every rank" must be called by every process of the group. The group can be used again after
// an agreed failure. One thread, except for the accessors.
class ModelRanks {
 public:
  // How long one rank waits for the others while the group forms and loads.
  static constexpr absl::Duration kJoinPatience = absl::Minutes(5);

  // Aborts the meshes once group.lost is raised. The caller must keep `group`'s rendezvous and signal alive while this
  // object lives.
  ModelRanks(std::vector<std::unique_ptr<Mesh>> meshes, const RankContext& group);

  // Loads the pipeline of every rank. `on_phase`: as Pipeline::Load, of the first rank in this process only.
  absl::Status Load(const PipelineOptions& options, absl::FunctionRef<void(std::string_view phase)> on_phase);

  absl::Span<const ModelRank> ranks() const { return ranks_; }
  // The mesh and the pipeline of the first rank in this process.
  const Mesh& mesh() const { return *ranks_[0].mesh; }
  const Pipeline& pipeline() const { return *ranks_[0].pipeline; }
  Pipeline& pipeline() { return *ranks_[0].pipeline; }
  // Whether rank 0 is in this process.
  bool leads() const { return mesh().world().rank() == 0; }

  // Runs the plan on every rank; rank 0 alone uses the sink, the observer and `from` (Pipeline::Generate). Returns
  // CauseOf the ranks' results, with the mark of an agreed failure.
  absl::Status Generate(const RunPlan& plan, ClipSink* sink, RunObserver* observer, const ResumePoint* from = nullptr);

  // Returns the number of frames that the model chooses for a plan with open_length (Pipeline::ChooseFrames). Rank 0
  // alone uses the observer. FailedAlone if a failure is not agreed. Every rank.
  absl::StatusOr<int32_t> ChooseFrames(const RunPlan& plan, RunObserver* observer);

  // Every rank passes the status of work that it does by itself. Returns OK if all are OK; otherwise this rank's own
  // failure, or Cancelled if only others failed. FailedAlone if the failure is not agreed.
  absl::Status Agree(const absl::Status& status);

  // Every rank passes its copy of one request, and rank 0 `status`, the outcome of reading the request's inputs or of
  // planning with them. If it is OK, gives the other ranks' requests the measures of rank 0's inputs (SetMeasures).
  // Returns `status` on rank 0, and OK or Cancelled on the others; FailedAlone if the failure is not agreed.
  absl::Status ShareInputs(absl::Status status, GenerationRequest& request);

  // Returns the values that the ranks pass, in rank order; one value if all ranks are in this process. Each key can be
  // used once. Fails with DeadlineExceeded after kJoinPatience.
  absl::StatusOr<std::vector<std::string>> FromEveryRank(const std::string& key, const std::string& own) const;
  // Returns the least of the values that every rank passes. Keys and errors: as FromEveryRank.
  absl::StatusOr<int64_t> Least(const std::string& key, int64_t own) const;

  // Returns rank 0's value on every rank; the other ranks' values are ignored. Each key can be used once. Fails with
  // DeadlineExceeded after `patience`.
  absl::StatusOr<std::string> FromRankZero(const std::string& key, const std::string& own,
                                           absl::Duration patience) const;

  // Gathers the trace of every rank in rank 0's process. Aborted if that fails.
  absl::Status GatherTrace();

 private:
  absl::Status OnEveryRank(absl::FunctionRef<absl::Status(ModelRank&)> body);
  // Whether all ranks of the group are in this process, so that an agreement needs no exchange.
  bool all_here() const { return std::ssize(ranks_) == mesh().world().size(); }

  std::vector<ModelRank> ranks_;
  Rendezvous& rendezvous_;  // with the ranks in other processes
  const AbortSignal::Listener lost_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_MODEL_RANKS_H_

// Metrics of the collectives of this process's ranks, and of how long the ranks wait for each other.
#ifndef KINORA_SERVER_WORKER_COLLECTIVE_METRICS_H_
#define KINORA_SERVER_WORKER_COLLECTIVE_METRICS_H_

#include "absl/types/span.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/stage_use.h"
#include "server/common/metrics.h"

namespace kinora {

// OnCollective: any thread; allocates nothing and looks nothing up by name.
class CollectiveMetrics : public CollectiveObserver {
 public:
  // Creates the series of every axis of the mesh, at 0. If a series is absent, the group does not have its axis.
  // `metrics` must outlive this object.
  CollectiveMetrics(const Mesh& mesh, WorkerMetrics& metrics);
  void OnCollective(const CollectiveCall& call) override;
  // Called after a successful run with the stages of rank `rank` of the mesh. One thread at a time.
  void OnRun(int rank, absl::Span<const StageUse> stages);

 private:
  struct Series {
    prometheus::Histogram* seconds = nullptr;
    prometheus::Histogram* wait_seconds = nullptr;
    prometheus::Counter* bytes = nullptr;
  };
  WorkerMetrics& metrics_;
  const bool alone_;  // whether the mesh has one rank
  Series series_[kMeshAxes][kCollectives];
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_COLLECTIVE_METRICS_H_

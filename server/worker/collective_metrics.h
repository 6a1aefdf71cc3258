// What the ranks of this process say of their collectives and of each other, as series of its metrics.
#ifndef KINORA_SERVER_WORKER_COLLECTIVE_METRICS_H_
#define KINORA_SERVER_WORKER_COLLECTIVE_METRICS_H_

#include "absl/types/span.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/stage_use.h"
#include "server/common/metrics.h"

namespace kinora {

// Any thread. Nothing is allocated or looked up by name in a call.
class CollectiveMetrics : public CollectiveObserver {
 public:
  // The series of every axis that the mesh has are there from now on, at 0: a series that is absent is of an axis that
  // the group does not have. `metrics` outlives it.
  CollectiveMetrics(const Mesh& mesh, WorkerMetrics& metrics);
  void OnCollective(const CollectiveCall& call) override;
  // A run of that rank of the mesh has ended well. One thread at a time.
  void OnRun(int rank, absl::Span<const StageUse> stages);

 private:
  struct Series {
    prometheus::Histogram* seconds = nullptr;
    prometheus::Histogram* wait_seconds = nullptr;
    prometheus::Counter* bytes = nullptr;
  };
  WorkerMetrics& metrics_;
  const bool alone_;  // a mesh of one rank
  Series series_[kMeshAxes][kCollectives];
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_COLLECTIVE_METRICS_H_

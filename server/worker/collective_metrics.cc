#include "server/worker/collective_metrics.h"

#include <map>
#include <string>

namespace kinora {

CollectiveMetrics::CollectiveMetrics(const Mesh& mesh, WorkerMetrics& metrics)
    : metrics_(metrics), alone_(mesh.world().size() == 1) {
  for (const auto& [stage, name] : kStages) {
    if (stage.kind == StageKind::kReadInputs || stage.kind == StageKind::kFinalize) continue;  // on rank 0 only
    if (!alone_) metrics_.rank_skew_seconds.Add({{"stage", std::string(name)}}, StageBuckets());
    for (const char* reason : kGraphMissNames) {
      if (stage.kind != StageKind::kDenoise) break;
      metrics_.graph_misses_total.Add({{"stage", std::string(name)}, {"reason", reason}});
    }
  }
  for (int axis = 0; axis < kMeshAxes; ++axis) {
    if (!mesh.Has(static_cast<MeshAxis>(axis))) continue;
    for (int op = 0; op < kCollectives; ++op) {
      const std::map<std::string, std::string> labels = {
          {"op", std::string(CollectiveName(static_cast<Collective>(op)))},
          {"axis", std::string(MeshAxisName(static_cast<MeshAxis>(axis)))}};
      series_[axis][op] = {.seconds = &metrics.collective_seconds.Add(labels, CollectiveBuckets()),
                           .wait_seconds = &metrics.collective_wait_seconds.Add(labels, CollectiveBuckets()),
                           .bytes = &metrics.collective_bytes_total.Add(labels)};
    }
  }
}

void CollectiveMetrics::OnCollective(const CollectiveCall& call) {
  const Series& series = series_[static_cast<int>(call.axis)][static_cast<int>(call.op)];
  series.seconds->Observe(call.seconds);
  if (call.wait_seconds.has_value()) series.wait_seconds->Observe(*call.wait_seconds);
  series.bytes->Increment(static_cast<double>(call.bytes));
}

void CollectiveMetrics::OnRun(int rank, absl::Span<const StageUse> stages) {
  double seconds = 0, idle = 0;
  for (const StageUse& stage : stages) {
    const std::string name(stage.stage.name());
    if (!alone_) metrics_.rank_skew_seconds.Add({{"stage", name}}, StageBuckets()).Observe(stage.wait_seconds);
    if (stage.stage.kind != StageKind::kDenoise) continue;
    for (int i = 0; i < kGraphMisses; ++i) {
      if (stage.graph_misses[i] == 0) continue;
      metrics_.graph_misses_total.Add({{"stage", name}, {"reason", kGraphMissNames[i]}})
          .Increment(static_cast<double>(stage.graph_misses[i]));
    }
    seconds += stage.seconds;
    idle += stage.idle_seconds;
  }
  if (seconds > 0) metrics_.device_idle_ratio.Add({{"rank", std::to_string(rank)}}).Set(idle / seconds);
}

}  // namespace kinora

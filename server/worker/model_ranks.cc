#include "server/worker/model_ranks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/processes/process_mesh.h"
#include "server/decode/input_reader.h"

namespace kinora {
namespace {

std::vector<ModelRank> ToRanks(std::vector<std::unique_ptr<Mesh>> meshes) {
  std::vector<ModelRank> ranks;
  ranks.reserve(meshes.size());
  for (auto& mesh : meshes) ranks.push_back({.mesh = std::move(mesh), .pipeline = nullptr});
  return ranks;
}

}  // namespace

absl::Status FailedAlone(const absl::Status& status) {
  return absl::AbortedError(absl::StrCat("a rank failed: ", status.ToString()));
}

absl::StatusOr<std::vector<std::unique_ptr<Mesh>>> MakeMeshes(const MeshShape& shape, const std::string& device,
                                                              const std::string& data_interface,
                                                              const RankContext& group) {
  if (group.world_size == 1) return MakeThreadMeshes(shape);
  const PeerOptions peer{.key = group.group_key, .interface = data_interface, .patience = ModelRanks::kJoinPatience};
  const ProcessRank process{.rank = group.rank, .rendezvous = group.rendezvous, .lost = group.lost, .peer = peer};
  std::vector<std::unique_ptr<Mesh>> meshes;
  KINORA_ASSIGN_OR_RETURN(meshes.emplace_back(), MakeProcessMesh(device, shape, process));
  return meshes;
}

ModelRanks::ModelRanks(std::vector<std::unique_ptr<Mesh>> meshes, const RankContext& group)
    : ranks_(ToRanks(std::move(meshes))), rendezvous_(group.rendezvous), lost_(group.lost, [this] {
        for (const ModelRank& rank : ranks_) rank.mesh->Abort();
      }) {}

absl::Status ModelRanks::OnEveryRank(absl::FunctionRef<absl::Status(ModelRank&)> body) {
  std::vector<const Mesh*> meshes;
  for (const ModelRank& rank : ranks_) meshes.push_back(rank.mesh.get());
  const int first = meshes[0]->world().rank();
  return kinora::OnEveryRank(meshes, [&](const Mesh& mesh) { return body(ranks_[mesh.world().rank() - first]); });
}

absl::Status ModelRanks::Load(const PipelineOptions& options,
                              absl::FunctionRef<void(std::string_view phase)> on_phase) {
  return OnEveryRank([&](ModelRank& rank) -> absl::Status {
    const bool first = &rank == ranks_.data();
    KINORA_ASSIGN_OR_RETURN(rank.pipeline, Pipeline::Load(options, *rank.mesh, [&](std::string_view phase) {
                              if (first) on_phase(phase);
                            }));
    return absl::OkStatus();
  });
}

absl::Status ModelRanks::Generate(const RunPlan& plan, ClipSink* sink, RunObserver* observer, const ResumePoint* from) {
  return OnEveryRank([&](ModelRank& rank) {
    const bool leads = rank.mesh->world().rank() == 0;
    return rank.pipeline->Generate(plan, leads ? sink : nullptr, leads ? observer : nullptr, leads ? from : nullptr);
  });
}

absl::StatusOr<int32_t> ModelRanks::ChooseFrames(const RunPlan& plan, RunObserver* observer) {
  std::atomic<int32_t> frames = 0;  // the same on every rank
  const absl::Status status = OnEveryRank([&](ModelRank& rank) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(frames, rank.pipeline->ChooseFrames(plan, observer));
    return absl::OkStatus();
  });
  if (!IsAgreed(status)) return FailedAlone(status);
  KINORA_RETURN_IF_ERROR(WithoutMark(status));
  return frames.load();
}

absl::Status ModelRanks::Agree(const absl::Status& status) {
  if (all_here()) return status;
  const absl::Status agreed = OnEveryRank([&](ModelRank& rank) { return rank.pipeline->Agree(status); });
  return IsAgreed(agreed) ? WithoutMark(agreed) : FailedAlone(agreed);
}

absl::Status ModelRanks::ShareInputs(absl::Status status, GenerationRequest& request) {
  if (all_here()) return status;
  std::vector<int64_t> measures = MeasuresOf(request);
  const absl::Status shared =
      OnEveryRank([&](ModelRank& rank) { return rank.pipeline->ShareFromRankZero(status, absl::MakeSpan(measures)); });
  if (!IsAgreed(shared)) return FailedAlone(shared);
  if (shared.ok() && !leads()) SetMeasures(measures, request);
  return WithoutMark(shared);
}

absl::StatusOr<std::vector<std::string>> ModelRanks::FromEveryRank(const std::string& key,
                                                                   const std::string& own) const {
  if (all_here()) return std::vector<std::string>{own};
  const Communicator& world = mesh().world();
  rendezvous_.Publish(key, own);
  std::vector<std::string> values(world.size(), own);
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) continue;
    KINORA_ASSIGN_OR_RETURN(values[rank], rendezvous_.Await(rank, key, kJoinPatience));
  }
  return values;
}

absl::StatusOr<int64_t> ModelRanks::Least(const std::string& key, int64_t own) const {
  KINORA_ASSIGN_OR_RETURN(const std::vector<std::string> values, FromEveryRank(key, absl::StrCat(own)));
  int64_t least = own;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(values[rank], &value)) {
      return absl::InternalError(absl::StrCat("rank ", rank, ": ", key, ": \"", values[rank], "\""));
    }
    least = std::min(least, value);
  }
  return least;
}

absl::StatusOr<std::string> ModelRanks::FromRankZero(const std::string& key, const std::string& own,
                                                     absl::Duration patience) const {
  if (all_here()) return own;
  if (!leads()) return rendezvous_.Await(0, key, patience);
  rendezvous_.Publish(key, own);
  return own;
}

absl::Status ModelRanks::GatherTrace() {
  if (all_here()) return absl::OkStatus();
  const absl::Status gathered = OnEveryRank([](ModelRank& rank) { return rank.pipeline->GatherTrace(); });
  return gathered.ok() ? gathered : absl::AbortedError(absl::StrCat("the trace: ", gathered.ToString()));
}

}  // namespace kinora

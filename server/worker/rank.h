// One process of a worker group, and what it does with a run. Rank 0 leads: it writes the clip, says how the run goes
// and answers with the artifact. The others follow: they compute their part, and answer how it ended.
#ifndef KINORA_SERVER_WORKER_RANK_H_
#define KINORA_SERVER_WORKER_RANK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "engine/processes/abort_signal.h"
#include "engine/processes/rendezvous.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/metrics.h"
#include "server/worker/file_lines.h"
#include "server/worker/model.h"
#include "server/worker/run_inputs.h"

namespace kinora {

// Who this process is among those of its group.
struct RankContext {
  int rank = 0;
  int world_size = 1;
  Rendezvous& rendezvous;  // with the others
  AbortSignal& lost;       // that they, or some, are
  // What the ranks of this incarnation prove to each other (peer_links.h).
  std::string group_key{};
};

struct RunContext {
  Model& model;
  WorkerMetrics& metrics;
  std::function<void(const v1::WorkerMessage&)> send;  // stage, step and resolved marks
  const std::atomic<bool>& cancelled;                  // looked at after each step
  std::atomic<int64_t>& units_done;                    // grows with each of them
};

class Rank {
 public:
  virtual ~Rank() = default;
  // From the Run message to its answer. Never throws for want of memory.
  virtual v1::RunResult Run(const RunContext& context, const v1::Run& run) = 0;
};

// The model's clip goes into a file of the asked container and from there to where the frontend reads it: the artifacts
// in the result are durable. Its error: CANCELLED after `cancelled`, else the model's, the sink's or the store's. What
// a run that failed had written is removed.
class LeadingRank : public Rank {
 public:
  // lines: how files go between `store` and the frontend; null: `store` is the frontend's, where inputs lie, too.
  // Neither is owned. decoder: kinora-decode.
  explicit LeadingRank(DirectoryArtifactStore& store, FileLines* lines = nullptr, std::string decoder = "")
      : store_(store),
        lines_(lines),
        inputs_{.folder = store.root(),
                .line = lines == nullptr ? nullptr : &lines->inputs,
                .decoder = std::move(decoder)} {}
  v1::RunResult Run(const RunContext& context, const v1::Run& run) override;

 private:
  DirectoryArtifactStore& store_;
  FileLines* const lines_;
  const RunInputs inputs_;
};

// No sink, no marks, no artifacts. A cancel is rank 0's word to all, so `cancelled` is not looked at.
class FollowingRank : public Rank {
 public:
  v1::RunResult Run(const RunContext& context, const v1::Run& run) override;
};

// kinora-decode is taken from beside this program.
std::unique_ptr<Rank> MakeRank(const RankContext& context, DirectoryArtifactStore& store, FileLines* lines = nullptr);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RANK_H_

// How one process of a worker group executes a run. Rank 0 leads: it writes the clip, reports progress, and returns the
// artifacts. The other ranks follow: they compute their part and return its status.
#ifndef KINORA_SERVER_WORKER_RANK_H_
#define KINORA_SERVER_WORKER_RANK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/processes/abort_signal.h"
#include "engine/processes/rendezvous.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/file_artifact_store.h"
#include "server/common/metrics.h"
#include "server/worker/file_lines.h"
#include "server/worker/fitness.h"
#include "server/worker/model.h"
#include "server/worker/run_inputs.h"

namespace kinora {

// The place of this process in its group.
struct RankContext {
  int rank = 0;
  int world_size = 1;
  Rendezvous& rendezvous;  // with the other processes
  AbortSignal& lost;       // raised when the group is lost
  // The secret by which the ranks of this incarnation authenticate each other (peer_links.h).
  std::string group_key{};
};

struct RunContext {
  Model& model;
  WorkerMetrics& metrics;
  std::function<void(const v1::WorkerMessage&)> send;  // sends marks to the frontend
  const std::atomic<bool>& cancelled;                  // checked after each step
  std::atomic<int64_t>& units_done;                    // grows with each step and other unit of work
  Fitness* fitness = nullptr;                          // of this rank's machine; null: always fit
  // Whether a run that is cancelled while it denoises first stores a resume point. Null: no.
  const std::atomic<bool>* keep_state = nullptr;
  const Clock& steady = Clock::Steady();
};

class Rank {
 public:
  virtual ~Rank() = default;
  // Executes a Run message and returns the answer. Reports std::bad_alloc as an error instead of throwing it.
  virtual v1::RunResult Run(const RunContext& context, const v1::Run& run) = 0;
};

// Writes the model's clip to a file of the requested container and delivers it to the frontend, then its thumbnail and
// its trace if they are requested; the artifacts in the result are durable. The result's error is CANCELLED after
// `cancelled`, or if the machine is found unfit before the run or after a failure of it; otherwise the model's, the
// sink's or the store's error. Removes the files of a failed run, except for its resume points.
class LeadingRank : public Rank {
 public:
  // lines: transfers files between `store` and the frontend; null: the frontend shares `store`, which then holds the
  // inputs too. The caller must keep both alive. decoder: path of kinora-decode. checkpoint_interval: between two
  // resume points of a run; 0: it has none but those of RunContext::keep_state.
  explicit LeadingRank(FileArtifactStore& store, FileLines* lines = nullptr, std::string decoder = "",
                       absl::Duration checkpoint_interval = absl::ZeroDuration())
      : store_(store),
        lines_(lines),
        checkpoint_interval_(checkpoint_interval),
        inputs_{.store = store, .line = lines == nullptr ? nullptr : &lines->inputs, .decoder = std::move(decoder)} {}
  v1::RunResult Run(const RunContext& context, const v1::Run& run) override;

 private:
  FileArtifactStore& store_;
  FileLines* const lines_;
  const absl::Duration checkpoint_interval_;
  const RunInputs inputs_;
};

// Has no sink, sends no marks and returns no artifacts. Rank 0 cancels a run on all ranks, so this rank checks
// `cancelled` only while it plans.
class FollowingRank : public Rank {
 public:
  v1::RunResult Run(const RunContext& context, const v1::Run& run) override;
};

// Returns the rank of this process. Expects kinora-decode in the folder of this program.
std::unique_ptr<Rank> MakeRank(const RankContext& context, FileArtifactStore& store, FileLines* lines,
                               absl::Duration checkpoint_interval);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RANK_H_

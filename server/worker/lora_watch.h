// The LoRAs of a worker's model: those that its configuration names and those of its folder (lora_folder.h), which a
// thread looks at once per second.
#ifndef KINORA_SERVER_WORKER_LORA_WATCH_H_
#define KINORA_SERVER_WORKER_LORA_WATCH_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/pipeline.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/metrics.h"
#include "server/worker/lora_folder.h"
#include "server/worker/model_digests.h"

namespace kinora {

class LoraWatch {
 public:
  // pipeline: whose list is kept; one of this process's. Neither is owned. folder: "" for none. The folder has been
  // looked at when this returns.
  // cache: of all pipelines of the process.
  LoraWatch(Pipeline& pipeline, std::shared_ptr<FactorCache> cache, const std::string& folder, WorkerMetrics& metrics);
  ~LoraWatch();
  LoraWatch(const LoraWatch&) = delete;
  LoraWatch& operator=(const LoraWatch&) = delete;

  // Of those that the configuration names; once, before the first run.
  void SetDigests(const ModelDigests::Map& known);

  // All of the following: any thread.
  // What a run has taken, into the metrics; by the thread that runs them.
  void CountSwaps(absl::Span<const StageUse> stages);
  // Sets the ids and digests of the present LoRAs.
  void Describe(v1::ModelInfo& model) const;
  // Looks now at the folder's file of each id that is asked for and not known by its digest. go_on: called meanwhile;
  // what it says, unless OK, ends the search and is returned.
  absl::Status Seek(const v1::Generation& asked, absl::FunctionRef<absl::Status()> go_on);
  // Called from now on, after each change and once at the beginning, by one thread at a time; null: no more. Once this
  // has returned, nothing that was set before runs.
  void SetListener(std::function<void()> changed);

 private:
  // Gives the folder to one thread at a time, those that seek first.
  class Turn;
  void LookOnce();
  void Publish();
  void Tell();
  void Loop();

  Pipeline& pipeline_;
  WorkerMetrics& metrics_;
  const std::shared_ptr<FactorCache> cache_;
  FactorCache::Counts counted_;  // in the metrics
  Loras given_;                  // by the configuration; of whose turn it is
  absl::Mutex turn_mu_;
  bool taken_ ABSL_GUARDED_BY(turn_mu_) = false;
  int seeking_ ABSL_GUARDED_BY(turn_mu_) = 0;  // that wait for their turn
  std::optional<LoraFolder> folder_;           // of whose turn it is, but for GiveUp
  absl::Mutex listener_mu_;
  std::function<void()> listener_ ABSL_GUARDED_BY(listener_mu_);
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // of a folder
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_LORA_WATCH_H_

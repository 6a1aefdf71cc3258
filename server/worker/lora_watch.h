// The LoRAs of a worker's model: those that its configuration names, and those in its folder (lora_folder.h), which a
// thread scans once per second.
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
  // Keeps the list of LoRAs of `pipeline`, one of this process's, up to date. The caller must keep `pipeline` and
  // `metrics` alive. cache: shared by all pipelines of the process. folder: "" for none; scanned before this returns.
  LoraWatch(Pipeline& pipeline, std::shared_ptr<FactorCache> cache, const std::string& folder, WorkerMetrics& metrics);
  ~LoraWatch();
  LoraWatch(const LoraWatch&) = delete;
  LoraWatch& operator=(const LoraWatch&) = delete;

  // Reads the values of the LoRAs that the configuration names. Fails with InvalidArgument naming the LoRA and the
  // tensor if one holds NaN or infinity, or with the file's error.
  static absl::Status CheckGiven(const Loras& loras);

  // Sets the digests of the LoRAs that the configuration names. To be called once, before the first run.
  void SetDigests(const ModelDigests::Map& known);

  // Adds the LoRA swaps of a run to the metrics. Called by the thread of the runs.
  void CountSwaps(absl::Span<const StageUse> stages);
  // Sets the ids and digests of the present LoRAs. Any thread.
  void Describe(v1::ModelInfo& model) const;
  // Looks at the folder's file now for each requested LoRA that is not listed, or is listed with a digest other than
  // the requested one. go_on: called meanwhile; an error from it ends the search and is returned. Any thread.
  absl::Status Seek(const v1::Generation& asked, absl::FunctionRef<absl::Status()> go_on);
  // Has `changed` called once now, if there is a folder, and after each change, by one thread at a time. Null: calls
  // nothing. Once this has returned, the previous listener is not running and will not run. Any thread.
  void SetListener(std::function<void()> changed);

 private:
  // Gives one thread at a time access to the folder. Threads in Seek have priority.
  class Turn;
  void LookOnce();
  void Publish();
  void Tell();
  void Loop();

  Pipeline& pipeline_;
  WorkerMetrics& metrics_;
  const std::shared_ptr<FactorCache> cache_;
  FactorCache::Counts counted_;  // already in the metrics
  Loras given_;                  // by the configuration; used by the thread that holds the Turn
  absl::Mutex turn_mu_;
  bool taken_ ABSL_GUARDED_BY(turn_mu_) = false;
  int seeking_ ABSL_GUARDED_BY(turn_mu_) = 0;  // threads in Seek that wait for a Turn
  std::optional<LoraFolder> folder_;           // used by the thread that holds the Turn, except for GiveUp
  absl::Mutex listener_mu_;
  std::function<void()> listener_ ABSL_GUARDED_BY(listener_mu_);
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // not started without a folder
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_LORA_WATCH_H_

// Stores the resume points of a run on rank 0: at an interval, and when the run is told to end and to keep its state.
// The run waits only while a point is copied from the device. A thread writes, stores and announces it.
#ifndef KINORA_SERVER_WORKER_RESUME_KEEPER_H_
#define KINORA_SERVER_WORKER_RESUME_KEEPER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/pipeline/resume_point.h"
#include "engine/request/stage.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/model.h"
#include "server/worker/rank.h"
#include "server/worker/run_artifacts.h"

namespace kinora {

// All methods are for the run's thread.
class ResumeKeeper {
 public:
  struct Options {
    absl::Duration interval;  // between two points; 0: points only when the run ends and keeps its state
    absl::Time begin;         // of the run, on RunContext::steady
    std::function<double(const Progress&)> fraction;  // of the run that is done after a step
    // How long the end of a run waits for a point that is being stored.
    absl::Duration patience = absl::Seconds(5);
  };
  // The caller must keep all arguments alive while this object lives.
  ResumeKeeper(const RunContext& context, const v1::Run& run, const PreparedRun& prepared,
               const RunArtifacts& artifacts, Options options);
  // Waits for the point that is being stored, at most `patience`, or not at all if the run is cancelled without keeping
  // its state; then gives it up. A disk that hangs is waited for.
  ~ResumeKeeper();
  ResumeKeeper(const ResumeKeeper&) = delete;
  ResumeKeeper& operator=(const ResumeKeeper&) = delete;

  // For RunObserver. At most one point is being stored at a time. If the run is to end, Keep returns when the point is
  // stored or has failed, or after `patience`.
  bool Wants(const Progress& progress);
  void Keep(ResumePoint&& point);
  // Whether a cancelled run must go on behind this progress, because its state is yet to be stored. Call it once for
  // each progress that is reported.
  bool HoldsBack(const Progress& progress);

 private:
  struct Taken {
    ResumePoint point;
    v1::ResumePoint described;  // without bytes and digest
  };
  bool told_to_leave() const { return context_.cancelled && context_.keep_state != nullptr && *context_.keep_state; }
  bool AwaitIdle(absl::Duration patience);
  void StoreAll();  // the thread
  void Store(Taken&& taken);
  absl::Status TryStore(Taken&& taken);
  void CountFailure(const absl::Status& status);

  const RunContext& context_;
  const v1::Run& run_;
  const PreparedRun& prepared_;
  const RunArtifacts artifacts_;
  const Options options_;
  int64_t taken_ = 0;  // points, for their IDs
  absl::Time last_;    // when the last point was taken
  absl::Time began_;   // when the wanted point was asked for
  Progress wanted_{};  // the step of the wanted point
  int held_back_ = 0;  // progress reports of a run that is to end
  bool left_ = false;  // whether the point of a run that ends has been handed over

  std::atomic<bool> give_up_ = false;
  int64_t failures_ = 0;                           // since the last one that was logged; of the thread
  absl::Time quiet_until_ = absl::InfinitePast();  // of the thread
  absl::Mutex mu_;
  std::optional<Taken> next_ ABSL_GUARDED_BY(mu_);
  bool busy_ ABSL_GUARDED_BY(mu_) = false;  // from Keep until the point is stored or has failed
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RESUME_KEEPER_H_

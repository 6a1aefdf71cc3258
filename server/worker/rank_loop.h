// The main loop of a worker process after Welcome: executes runs one after another on the calling thread, answers
// estimates on another thread, cancels a run at its next step, and aborts all waits for a lost rank.
#ifndef KINORA_SERVER_WORKER_RANK_LOOP_H_
#define KINORA_SERVER_WORKER_RANK_LOOP_H_

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/processes/abort_signal.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/metrics.h"
#include "server/worker/file_lines.h"
#include "server/worker/fitness.h"
#include "server/worker/join_client.h"
#include "server/worker/join_rendezvous.h"
#include "server/worker/model.h"
#include "server/worker/rank.h"

namespace kinora {

// Counts the bytes that this process has read from files, without its own reads, to show the progress of a load.
class ReadMeter {
 public:
  int64_t Bytes();

 private:
  int64_t own_ = 0;
};

struct RankLines {  // receivers of the stream's messages; the caller keeps them alive
  JoinClient& client;
  JoinRendezvous& rendezvous;
  FileLines& files;
  AbortSignal& lost;
  Fitness& fitness;
};

class RankLoop {
 public:
  // Starts the client and its heartbeats; during the load these report the bytes that the process has read as units of
  // progress. Raises `lost` when the frontend reports that the group is lost, or disconnects during the load.
  // on_stream_end: called once, when the stream has ended; may be empty.
  RankLoop(RankLines lines, WorkerMetrics& metrics, std::function<void()> on_stream_end = {});
  ~RankLoop();  // ends the client first

  // Checks the machine (Heartbeat.unfit), sends Ready, then executes runs with `rank`. Returns OK after Shutdown or
  // Stop; the stream's status when the stream ends; Aborted, after reporting it to the frontend, if a run ends without
  // an outcome because the group is lost.
  absl::Status Run(Rank& rank, Model& model);
  // Reports to the frontend that this rank has failed alone, in its load or in a run, and waits briefly for the end of
  // the stream, which the frontend causes. Returns `status`.
  absl::Status SayRankFailed(const absl::Status& status);
  // Makes Run return after the present run, which is cancelled and keeps its state if it takes longer than `grace`. Any
  // thread.
  void Stop(absl::Duration grace);
  // Reports progress of a load that does not read files. Any thread.
  void NoteProgress() { ++units_done_; }
  // Whether the frontend has sent Shutdown.
  bool dismissed() const { return dismissed_; }
  // OK if the model is loaded, the stream is open, Stop was not called, and the machine is fit.
  absl::Status Readiness() const;

 private:
  void SayLast(const v1::WorkerMessage& message);  // and waits briefly for the end of the stream
  v1::Heartbeat Heartbeat();                       // checks an unfit machine again
  void SayUnfit();                                 // does nothing if the machine is fit
  void OnMessage(const v1::FrontendMessage& message);
  void OnEnd(const absl::Status& status);
  void AnswerEstimates(Model& model);                // also passes the SpeedHistory to the model
  absl::StatusOr<std::optional<v1::Run>> NextRun();  // waits; nullopt after Stop
  absl::Status RunOne(Rank& rank, Model& model, const v1::Run& run);
  void CancelRun(bool keep_state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnAbort(const v1::Abort& abort);
  void OnEstimate(const v1::EstimateRequest& request);

  JoinClient& client_;
  JoinRendezvous& rendezvous_;
  FileLines& files_;
  AbortSignal& lost_;
  Fitness& fitness_;
  WorkerMetrics& metrics_;
  const std::function<void()> on_stream_end_;
  std::atomic<bool> dismissed_ = false;
  std::atomic<bool> cancelled_ = false;   // whether the present run is cancelled
  std::atomic<bool> keep_state_ = false;  // whether it then stores its state first
  std::atomic<int64_t> units_done_ = 0;

  mutable absl::Mutex mu_;
  ReadMeter reads_ ABSL_GUARDED_BY(mu_);
  std::string phase_ ABSL_GUARDED_BY(mu_) = "load";
  std::deque<v1::Run> runs_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::Run> running_ ABSL_GUARDED_BY(mu_);
  v1::Cancel last_cancel_ ABSL_GUARDED_BY(mu_);  // may arrive before its run has begun
  std::deque<v1::EstimateRequest> estimates_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::SpeedHistory> speeds_ ABSL_GUARDED_BY(mu_);  // until the model has it
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mu_);       // the stream's status
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time stop_deadline_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  std::thread estimator_, stopper_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RANK_LOOP_H_

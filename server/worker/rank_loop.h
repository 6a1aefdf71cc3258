// What a process does between Welcome and its end: runs requests one after another on the calling thread, answers
// estimates on a thread of its own meanwhile, heeds cancels at the next step, and aborts what waits for a rank that is
// lost.
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
#include "server/worker/join_client.h"
#include "server/worker/join_rendezvous.h"
#include "server/worker/model.h"
#include "server/worker/rank.h"

namespace kinora {

// Bytes that this process has read from files, but for what asking costs; how a load shows that it goes on.
class ReadMeter {
 public:
  int64_t Bytes();

 private:
  int64_t own_ = 0;
};

struct RankLines {  // what hears of the stream; none is owned
  JoinClient& client;
  JoinRendezvous& rendezvous;
  FileLines& files;
  AbortSignal& lost;
};

class RankLoop {
 public:
  // Starts the client, whose heartbeats it gives from now on; during the load they report the bytes that the process
  // has read as units of progress. Raises `lost` once the frontend says that the group is, or has gone during the load.
  // on_stream_end: runs once, when the stream has ended; may be empty.
  RankLoop(RankLines lines, WorkerMetrics& metrics, std::function<void()> on_stream_end = {});
  ~RankLoop();  // after the client's end, which it awaits

  // Sends Ready, then has `rank` run what comes until the frontend says Shutdown, Stop is called (OK), the stream ends
  // (its status), or a run has no outcome (Aborted: the group is lost, which the frontend is told).
  absl::Status Run(Rank& rank, Model& model);
  // Tells the frontend that this rank has failed alone, in its load or in a run, and waits a moment for the end of the
  // stream, which follows. Returns `status`.
  absl::Status SayRankFailed(const absl::Status& status);
  // Ends the present run (CANCELLED) after `grace` and then Run. Any thread.
  void Stop(absl::Duration grace);
  // The load goes on, though it reads nothing. Any thread.
  void NoteProgress() { ++units_done_; }
  // The frontend has said Shutdown.
  bool dismissed() const { return dismissed_; }
  // OK: Ready was sent and the stream stands.
  absl::Status Readiness() const;

 private:
  void SayLast(const v1::WorkerMessage& message);  // and wait a moment for the end of the stream
  v1::Heartbeat Heartbeat();
  void OnMessage(const v1::FrontendMessage& message);
  void OnEnd(const absl::Status& status);
  void AnswerEstimates(Model& model);                // and tells the model what earlier runs took
  absl::StatusOr<std::optional<v1::Run>> NextRun();  // waits; nothing: Stop was called
  absl::Status RunOne(Rank& rank, Model& model, const v1::Run& run);
  void OnAbort(const v1::Abort& abort);
  void OnEstimate(const v1::EstimateRequest& request);

  JoinClient& client_;
  JoinRendezvous& rendezvous_;
  FileLines& files_;
  AbortSignal& lost_;
  WorkerMetrics& metrics_;
  const std::function<void()> on_stream_end_;
  std::atomic<bool> dismissed_ = false;
  std::atomic<bool> cancelled_ = false;  // the present run
  std::atomic<int64_t> units_done_ = 0;

  mutable absl::Mutex mu_;
  ReadMeter reads_ ABSL_GUARDED_BY(mu_);
  std::string phase_ ABSL_GUARDED_BY(mu_) = "load";
  std::deque<v1::Run> runs_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::Run> running_ ABSL_GUARDED_BY(mu_);
  v1::Cancel last_cancel_ ABSL_GUARDED_BY(mu_);  // may come before its run has begun
  std::deque<v1::EstimateRequest> estimates_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::SpeedHistory> speeds_ ABSL_GUARDED_BY(mu_);  // until the model has been told
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mu_);       // of the stream
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time stop_deadline_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  std::thread estimator_, stopper_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RANK_LOOP_H_

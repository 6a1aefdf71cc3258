// One incarnation of a worker group as the frontend sees it: its ranks' streams, its health and its present run. A
// group is lost as a whole: if one rank disconnects, sends no heartbeats or makes no progress, all of it is lost for
// good. The next incarnation is a new object.
//
// Used only on the dispatcher's loop. Callers pass the time, the frontend's attended time
// (server/common/attended_time.h), so that tests of silence and stalls need not wait.
//   kJoining (ranks are missing) → kLoading → kIdle ⇄ kBusy; kDraining (a run ends) → kDrained; any → kLost
//   kIdle ⇄ kUnfit: a rank reports that its machine cannot run anything now
#ifndef KINORA_SERVER_FRONTEND_GROUPS_WORKER_GROUP_H_
#define KINORA_SERVER_FRONTEND_GROUPS_WORKER_GROUP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/frontend/groups/group_limits.h"
#include "server/frontend/groups/rank_link.h"

namespace kinora {

class WorkerGroup {
 public:
  enum class State { kJoining, kLoading, kIdle, kUnfit, kBusy, kDraining, kDrained, kLost };

  class Listener {  // called by the methods below; may call them
   public:
    virtual ~Listener() = default;
    virtual void OnReady(WorkerGroup& group) = 0;    // described, and idle or unfit
    virtual void OnFitness(WorkerGroup& group) = 0;  // changed to kUnfit, or back to kIdle
    // After OnReady: the LoRAs in ready().model() differ from those in `before`.
    virtual void OnModelChanged(WorkerGroup& group, const v1::ModelInfo& before) = 0;
    virtual void OnStage(WorkerGroup& group, const v1::StageMark& mark) = 0;
    virtual void OnStep(WorkerGroup& group, const v1::StepMark& mark) = 0;
    virtual void OnPreview(WorkerGroup& group, const v1::PreviewMark& mark) = 0;
    virtual void OnResolved(WorkerGroup& group, const v1::ResolvedMark& mark) = 0;
    // The mark may name any attempt, also one that has ended.
    virtual void OnResume(WorkerGroup& group, const v1::ResumeMark& mark) = 0;
    // All ranks have answered. `result` is rank 0's, with the error of the first failed rank if any, preferring real
    // failures to CANCELLED. The group is idle, unfit or drained again.
    virtual void OnRunEnded(WorkerGroup& group, const v1::RunResult& result) = 0;
    // Rank 0 sent a piece of an artifact of the present run; answer with AnswerUpload.
    virtual void OnUpload(WorkerGroup& group, const v1::UploadChunk& chunk) = 0;
    // Rank 0 requests a piece of an input of the present run; answer with SendPiece.
    virtual void OnFetch(WorkerGroup& group, const v1::InputFetch& fetch) = 0;
    virtual void OnEstimate(WorkerGroup& group, const v1::EstimateResult& result) = 0;
    virtual void OnLost(WorkerGroup& group, LossReason reason, const std::string& why) = 0;  // last call
  };

  WorkerGroup(std::string id, std::string incarnation, int world_size, GroupLimits limits, Listener& listener);

  // Adds a rank. FailedPrecondition: it does not belong to this group (rank out of range, other world size, other
  // commit). Unavailable: the rank or the whole group is here already. Errors leave the present ranks unaffected.
  absl::Status AddRank(const v1::Hello& hello, std::shared_ptr<RankLink> link, absl::Time now);
  // Sends a newly joined rank the values that the others have published so far.
  void SendPublished(RankLink& link) const;
  // Rank 0 has joined and shares no directory with the frontend: artifacts and inputs are transferred in pieces.
  void TakeUploads() { uploads_ = true; }
  bool uploads() const { return uploads_; }
  void AnswerUpload(const v1::UploadChunk& chunk, const absl::Status& status);
  void SendPiece(v1::InputPiece piece);
  bool Has(const RankLink& link) const;
  void Receive(const RankLink& link, const v1::WorkerMessage& message, absl::Time now);
  void Disconnect(const RankLink& link, const absl::Status& why);

  void Start(const v1::Run& run, absl::Time now);  // only in state kIdle
  // keep_state: Cancel.keep_state. Does nothing without a run, or if its run has been cancelled.
  void CancelRun(absl::Time now, bool keep_state = false);
  void Estimate(const v1::EstimateRequest& request);
  void TellSpeeds(const v1::SpeedHistory& past);  // sends rank 0 the past run times at SpeedPlace
  void Drain();                                   // lets its run finish and accepts no other
  void Shutdown(absl::Duration grace);            // asks the processes to leave
  // Tells the ranks to abort and ends their streams, so that the processes exit.
  void Lose(LossReason reason, const std::string& why);

  // Loses the group if a rank is silent or makes no progress. Returns when to check again at the latest.
  absl::Time CheckHealth(absl::Time now);

  const std::string& id() const { return id_; }
  const std::string& incarnation() const { return incarnation_; }
  const std::string& key() const { return key_; }  // the secret that its ranks prove to each other
  State state() const { return state_; }
  const v1::Ready& ready() const { return ready_; }      // rank 0's; empty before kIdle
  absl::Time idle_since() const { return idle_since_; }  // valid in state kIdle
  const std::string& worn() const { return worn_; }      // LoraKey of the LoRAs merged into its weights, if known
  bool running() const { return run_.has_value(); }
  absl::Duration expected_step() const { return expected_step_; }  // in the present stage; zero if unknown
  bool serving() const { return state_ == State::kIdle || state_ == State::kBusy; }
  bool described() const { return state_ > State::kLoading && state_ < State::kLost; }  // OnReady has been called
  int ranks() const { return static_cast<int>(ranks_.size()); }
  std::string Missing() const;                             // "waiting for rank 1, 3 of 4"; empty if none is missing
  v1::WorkerGroup Describe(absl::Duration to_date) const;  // to_date: added to its times to get dates
  // The job store's key for run speeds: model, precision, mesh and device. Only for a ready group.
  std::string SpeedPlace() const;

 private:
  struct Rank {
    std::shared_ptr<RankLink> link;
    v1::Hello hello;
    bool ready = false;
    v1::Ready description;  // once ready
    std::string unfit;      // Heartbeat.unfit, truncated
    absl::Time last_heartbeat;
    int64_t units_done = 0;
    std::optional<v1::RunResult> result;  // of the present run
  };
  void OnHeartbeat(Rank& rank, const v1::Heartbeat& heartbeat, absl::Time now);
  void OnRankReady(Rank& rank, const v1::Ready& ready, absl::Time now);
  void OnRendezvous(const Rank& rank, const v1::Rendezvous& rendezvous);
  void OnModel(const Rank& rank, const v1::ModelInfo& model);
  bool LoseIfTooLarge(const Rank& rank, const v1::ModelInfo& model);
  void OnResult(Rank& rank, const v1::RunResult& result, absl::Time now);
  void OnMark(const v1::WorkerMessage& message);
  void OnResumeMark(const Rank& rank, const v1::ResumeMark& mark);
  void OnChunk(const Rank& rank, const v1::UploadChunk& chunk);
  void OnInputFetch(const Rank& rank, const v1::InputFetch& fetch);
  bool IsOfThisRun(const std::string& video_id, int32_t attempt) const;
  void Broadcast(const v1::FrontendMessage& message);
  void SendToRankZero(const v1::FrontendMessage& message);
  absl::Duration StallLimit() const;
  std::string Unfit() const;  // "rank 0: …"; empty if all can run
  State Rest() const;         // state of a described group without a run

  const std::string id_, incarnation_, key_;
  const int world_size_;
  const GroupLimits limits_;
  Listener& listener_;
  State state_ = State::kJoining;
  absl::Time begun_;  // when the first rank joined
  std::map<int, Rank> ranks_;
  std::vector<v1::Rendezvous> published_;
  size_t published_bytes_ = 0;
  v1::Ready ready_;
  std::optional<v1::Run> run_;
  bool drain_ = false, uploads_ = false;
  bool fetch_unanswered_ = false;                    // OnFetch awaits its answer
  std::vector<v1::UploadChunk> unanswered_;          // OnUpload awaits the answers to these, at most 2; without data
  absl::Time cancel_time_ = absl::InfiniteFuture();  // of the present run
  absl::Time last_progress_, idle_since_;
  absl::Duration expected_step_;  // of the present stage
  std::string why_lost_;
  std::string worn_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_WORKER_GROUP_H_

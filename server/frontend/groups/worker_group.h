// One incarnation of a worker group, as the frontend sees it: its ranks' streams, whether it is alive, and the job it
// runs. A group lives and dies as a unit: the first rank that disconnects, stays silent or makes no progress loses all
// of it, and a lost group never comes back; its next incarnation is another object.
//
// Used by one thread, the dispatcher's loop. Time is given to it, so that silence and stalls are tested without
// waiting: the frontend's attended time (server/common/attended_time.h).
//   kJoining (ranks are missing) → kLoading → kIdle ⇄ kBusy;  kDraining: finishes its run, then kDrained;  any → kLost
#ifndef KINORA_SERVER_FRONTEND_GROUPS_WORKER_GROUP_H_
#define KINORA_SERVER_FRONTEND_GROUPS_WORKER_GROUP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

class RankLink {  // the way to one rank; the Join stream's, or a test's
 public:
  virtual ~RankLink() = default;
  virtual void Send(v1::FrontendMessage message) = 0;  // never blocks; dropped once the stream has ended
  virtual void Close(const absl::Status& status) = 0;  // ends the stream with `status`, after what was sent
};

struct GroupLimits {
  absl::Duration heartbeat_interval = absl::Seconds(2);
  absl::Duration heartbeat_timeout = absl::Seconds(15);  // of silence of any rank
  // Without progress (WorkerMessage marks, Heartbeat.units_done) for longer than max(floor, 10 × the expected time of a
  // step) a group that loads or runs counts as stalled.
  absl::Duration stall_floor = absl::Seconds(60);
  absl::Duration cancel_floor = absl::Seconds(60);  // the same after a cancel, for the run to end
  absl::Duration join_timeout = absl::Minutes(5);   // from the first rank that joins to the last
};

// As kinora_group_restarts_total counts them.
enum class LossReason {
  kDisconnected,
  kSilent,
  kStalled,
  kCancelIgnored,
  kProcessEnded,
  kAdmin,
  kRankFailed,
  kIncomplete,     // ranks did not join in time
  kLeft,           // a rank was told to leave, and said so
  kModelConflict,  // another group serves other files under the same model id, or its own ranks do
};

class WorkerGroup {
 public:
  enum class State { kJoining, kLoading, kIdle, kBusy, kDraining, kDrained, kLost };

  class Listener {  // called from within the methods below; may call back
   public:
    virtual ~Listener() = default;
    virtual void OnReady(WorkerGroup& group) = 0;  // described and idle
    // After OnReady: ready().model() has other LoRAs.
    virtual void OnModelChanged(WorkerGroup& group) = 0;
    virtual void OnStage(WorkerGroup& group, const v1::StageMark& mark) = 0;
    virtual void OnStep(WorkerGroup& group, const v1::StepMark& mark) = 0;
    virtual void OnPreview(WorkerGroup& group, const v1::PreviewMark& mark) = 0;
    virtual void OnResolved(WorkerGroup& group, const v1::ResolvedMark& mark) = 0;
    // The answers of all ranks: rank 0's, with the error of the first rank that failed rather than was cancelled.
    // The group is idle or drained again.
    virtual void OnRunEnded(WorkerGroup& group, const v1::RunResult& result) = 0;
    // A piece of an artifact of the present run, from rank 0; AnswerUpload follows.
    virtual void OnUpload(WorkerGroup& group, const v1::UploadChunk& chunk) = 0;
    // Rank 0 wants a piece of an input that the present run names; SendPiece follows.
    virtual void OnFetch(WorkerGroup& group, const v1::InputFetch& fetch) = 0;
    virtual void OnEstimate(WorkerGroup& group, const v1::EstimateResult& result) = 0;
    virtual void OnLost(WorkerGroup& group, LossReason reason, const std::string& why) = 0;  // last call
  };

  WorkerGroup(std::string id, std::string incarnation, int world_size, GroupLimits limits, Listener& listener);

  // A rank arrives. FailedPrecondition: it does not fit this group (rank out of range, another world size, made of
  // another commit); Unavailable: not now (the rank is here already, or all are). Those that are here are not harmed.
  absl::Status AddRank(const v1::Hello& hello, std::shared_ptr<RankLink> link, absl::Time now);
  // To a rank that has been welcomed: what the others have published so far.
  void SendPublished(RankLink& link) const;
  // Rank 0, which is here, shares no directory with the frontend: its artifacts come, and inputs go, as pieces.
  void TakeUploads() { uploads_ = true; }
  bool uploads() const { return uploads_; }
  void AnswerUpload(const v1::UploadChunk& chunk, const absl::Status& status);
  void SendPiece(v1::InputPiece piece);
  bool Has(const RankLink& link) const;
  void Receive(const RankLink& link, const v1::WorkerMessage& message, absl::Time now);
  void Disconnect(const RankLink& link, const absl::Status& why);

  void Start(const v1::Run& run, absl::Time now);  // state kIdle only
  void CancelRun(absl::Time now);                  // no run: nothing
  void Estimate(const v1::EstimateRequest& request);
  void TellSpeeds(const v1::SpeedHistory& past);  // what runs took at its SpeedPlace before
  void Drain();                                   // finishes its run, takes no other
  void Shutdown(absl::Duration grace);            // asks the processes to leave
  // Tells the ranks to abort and ends their streams, so that the processes leave.
  void Lose(LossReason reason, const std::string& why);

  // Loses the group if a rank is silent or work stands still. Call it again at the time that it returns, or earlier.
  absl::Time CheckHealth(absl::Time now);

  const std::string& id() const { return id_; }
  const std::string& incarnation() const { return incarnation_; }
  const std::string& key() const { return key_; }  // what its ranks prove to each other
  State state() const { return state_; }
  const v1::Ready& ready() const { return ready_; }      // rank 0's; empty before kIdle
  absl::Time idle_since() const { return idle_since_; }  // of one that is kIdle
  const std::string& worn() const { return worn_; }      // LoraKey of what its weights bear, as far as that is known
  bool running() const { return run_.has_value(); }
  bool serving() const { return state_ == State::kIdle || state_ == State::kBusy; }
  int ranks() const { return static_cast<int>(ranks_.size()); }
  std::string Missing() const;                             // "awaits rank 1, 3 of 4"; empty: nobody
  v1::WorkerGroup Describe(absl::Duration to_date) const;  // to_date: what makes a date of this group's times
  // What the speed of a run depends on, as the job store keeps it: model, precision, mesh and device. Of a ready group.
  std::string SpeedPlace() const;

 private:
  struct Rank {
    std::shared_ptr<RankLink> link;
    v1::Hello hello;
    bool ready = false;
    v1::Ready description;  // once it is
    absl::Time last_heartbeat;
    int64_t units_done = 0;
    std::optional<v1::RunResult> result;  // of the present run
  };
  void OnHeartbeat(Rank& rank, const v1::Heartbeat& heartbeat, absl::Time now);
  void OnRankReady(Rank& rank, const v1::Ready& ready, absl::Time now);
  void OnRendezvous(const Rank& rank, const v1::Rendezvous& rendezvous);
  void OnModel(const Rank& rank, const v1::ModelInfo& model);
  void OnResult(Rank& rank, const v1::RunResult& result, absl::Time now);
  void OnMark(const v1::WorkerMessage& message);
  void OnChunk(const Rank& rank, const v1::UploadChunk& chunk);
  void OnInputFetch(const Rank& rank, const v1::InputFetch& fetch);
  bool IsOfThisRun(const std::string& video_id, int32_t attempt) const;
  void Broadcast(const v1::FrontendMessage& message);
  void SendToRankZero(const v1::FrontendMessage& message);
  absl::Duration StallLimit() const;

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
  bool piece_unanswered_ = false, fetch_unanswered_ = false;  // OnUpload, OnFetch has been called, its answer not
  absl::Time cancel_time_ = absl::InfiniteFuture();           // of the present run
  absl::Time last_progress_, idle_since_;
  absl::Duration expected_step_;  // of the present stage
  std::string why_lost_;
  std::string worn_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_WORKER_GROUP_H_

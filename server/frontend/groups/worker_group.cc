#include "server/frontend/groups/worker_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/common/secret.h"
#include "server/common/sha256.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/common/upload_limits.h"
#include "server/frontend/groups/input_supply.h"
#include "server/frontend/groups/lora_choice.h"
#include "server/frontend/groups/rank_agreement.h"
#include "server/request/model_conversion.h"

namespace kinora {
namespace {

// Limits in worker.proto. A description has at most 256 LoRAs, each with two names of up to 255 bytes and a digest.
constexpr size_t kMostPublishedBytes = 1 << 20, kMostPreviewBytes = 256 << 10, kMostModelBytes = 256 << 10;
constexpr size_t kMostUnfitBytes = 500;

const char* StateName(WorkerGroup::State state) {
  switch (state) {
    case WorkerGroup::State::kJoining:
      return "joining";
    case WorkerGroup::State::kLoading:
      return "loading";
    case WorkerGroup::State::kIdle:
      return "idle";
    case WorkerGroup::State::kUnfit:
      return "unfit";
    case WorkerGroup::State::kBusy:
      return "busy";
    case WorkerGroup::State::kDraining:
      return "draining";
    case WorkerGroup::State::kDrained:
      return "drained";
    case WorkerGroup::State::kLost:
      return "lost";
  }
  return "";
}

bool IsProgress(v1::WorkerMessage::MessageCase message) {
  return message != v1::WorkerMessage::kHeartbeat && message != v1::WorkerMessage::kEstimateResult &&
         message != v1::WorkerMessage::kModel && message != v1::WorkerMessage::kHello &&
         message != v1::WorkerMessage::MESSAGE_NOT_SET;  // from a newer version
}

bool IsError(const v1::RunResult& result) {
  return result.has_error() && result.error().code() != static_cast<int>(absl::StatusCode::kOk);
}
bool IsCancelled(const v1::RunResult& result) {
  return result.error().code() == static_cast<int>(absl::StatusCode::kCancelled);
}

}  // namespace

WorkerGroup::WorkerGroup(std::string id, std::string incarnation, int world_size, GroupLimits limits,
                         Listener& listener)
    : id_(std::move(id)),
      incarnation_(std::move(incarnation)),
      key_(DrawSecret()),
      world_size_(world_size),
      limits_(limits),
      listener_(listener) {}

absl::Status WorkerGroup::AddRank(const v1::Hello& hello, std::shared_ptr<RankLink> link, absl::Time now) {
  if (state_ != State::kJoining) {
    return absl::UnavailableError(absl::StrCat("group ", id_, " is ", StateName(state_), ", not joining"));
  }
  if (hello.world_size() != world_size_ || hello.rank() < 0 || hello.rank() >= world_size_) {
    return absl::FailedPreconditionError(absl::StrCat("group ", id_, " has ", world_size_, " ranks; rank ",
                                                      hello.rank(), " of ", hello.world_size(), " does not match"));
  }
  if (!ranks_.empty() && ranks_.begin()->second.hello.commit() != hello.commit()) {
    return absl::FailedPreconditionError(absl::StrCat("commit: rank ", ranks_.begin()->first, " of group ", id_,
                                                      " is built from ", ranks_.begin()->second.hello.commit(),
                                                      ", rank ", hello.rank(), " of ", hello.commit(),
                                                      "; start all ranks of a group from one build"));
  }
  if (ranks_.contains(hello.rank())) {
    return absl::UnavailableError(absl::StrCat("group ", id_, " already has a rank ", hello.rank()));
  }
  if (ranks_.empty()) begun_ = now;
  Rank& rank = ranks_[hello.rank()];
  rank.link = std::move(link);
  rank.hello = hello;
  rank.last_heartbeat = now;
  last_progress_ = now;
  if (static_cast<int>(ranks_.size()) == world_size_) state_ = State::kLoading;
  return absl::OkStatus();
}

bool WorkerGroup::Has(const RankLink& link) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) { return entry.second.link.get() == &link; });
}

void WorkerGroup::Receive(const RankLink& link, const v1::WorkerMessage& message, absl::Time now) {
  const auto it = std::ranges::find_if(ranks_, [&](const auto& r) { return r.second.link.get() == &link; });
  if (state_ == State::kLost || it == ranks_.end()) return;
  Rank& rank = it->second;
  rank.last_heartbeat = now;
  if (IsProgress(message.message_case())) last_progress_ = now;
  switch (message.message_case()) {
    case v1::WorkerMessage::kHeartbeat:
      return OnHeartbeat(rank, message.heartbeat(), now);
    case v1::WorkerMessage::kReady:
      return OnRankReady(rank, message.ready(), now);
    case v1::WorkerMessage::kRunResult:
      return OnResult(rank, message.run_result(), now);
    case v1::WorkerMessage::kUploadChunk:
      return OnChunk(rank, message.upload_chunk());
    case v1::WorkerMessage::kInputFetch:
      return OnInputFetch(rank, message.input_fetch());
    case v1::WorkerMessage::kEstimateResult:
      if (rank.hello.rank() == 0) listener_.OnEstimate(*this, message.estimate_result());  // only rank 0 is asked
      return;
    case v1::WorkerMessage::kRendezvous:
      return OnRendezvous(rank, message.rendezvous());
    case v1::WorkerMessage::kModel:
      return OnModel(rank, message.model());
    case v1::WorkerMessage::kRankFailed:
      return Lose(LossReason::kRankFailed,
                  absl::StrCat("rank ", rank.hello.rank(), " failed: ", message.rank_failed().error().message()));
    case v1::WorkerMessage::kStage:
    case v1::WorkerMessage::kStep:
    case v1::WorkerMessage::kResolved:
    case v1::WorkerMessage::kPreview:
      return OnMark(message);
    case v1::WorkerMessage::kResume:
      return OnResumeMark(rank, message.resume());
    default:
      return;  // a second Hello is ignored
  }
}

void WorkerGroup::OnHeartbeat(Rank& rank, const v1::Heartbeat& heartbeat, absl::Time now) {
  if (heartbeat.phase() == "leaving") {
    return Lose(LossReason::kLeft, absl::StrCat("rank ", rank.hello.rank(), " was stopped"));
  }
  if (heartbeat.units_done() > rank.units_done) last_progress_ = now;
  rank.units_done = heartbeat.units_done();
  rank.unfit = heartbeat.unfit().substr(0, kMostUnfitBytes);
  if ((state_ != State::kIdle && state_ != State::kUnfit) || state_ == Rest()) return;
  state_ = Rest();
  idle_since_ = now;
  listener_.OnFitness(*this);
}

bool WorkerGroup::LoseIfTooLarge(const Rank& rank, const v1::ModelInfo& model) {
  const size_t bytes = model.ByteSizeLong();
  if (bytes <= kMostModelBytes) return false;
  Lose(LossReason::kRankFailed, absl::StrCat("rank ", rank.hello.rank(), " failed: its model description has ", bytes,
                                             " bytes; at most ", kMostModelBytes, " are allowed"));
  return true;
}

void WorkerGroup::OnRankReady(Rank& rank, const v1::Ready& ready, absl::Time now) {
  if (LoseIfTooLarge(rank, ready.model())) return;
  rank.ready = true;
  rank.description = ready;
  if (rank.hello.rank() == 0) ready_ = ready;
  for (const auto& [number, other] : ranks_) {
    const std::string difference = other.ready ? Disagreement(other.description, ready) : "";
    if (difference.empty()) continue;
    return Lose(LossReason::kModelConflict, absl::StrCat("rank ", number, " and rank ", rank.hello.rank(),
                                                         " of the same group differ in ", difference));
  }
  const bool all = static_cast<int>(ranks_.size()) == world_size_ &&
                   std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.ready; });
  if (!all || state_ != State::kLoading) return;
  state_ = Rest();
  idle_since_ = now;
  listener_.OnReady(*this);
  if (state_ == State::kUnfit) listener_.OnFitness(*this);
}

void WorkerGroup::OnModel(const Rank& rank, const v1::ModelInfo& model) {
  if (rank.hello.rank() != 0 || !rank.ready || model.id() != ready_.model().id()) {
    return Lose(
        LossReason::kRankFailed,
        absl::StrCat("rank ", rank.hello.rank(), " failed: it describes a different model than the rest of its group"));
  }
  if (LoseIfTooLarge(rank, model)) return;
  const v1::ModelInfo before = std::exchange(*ready_.mutable_model(), model);
  if (described()) listener_.OnModelChanged(*this, before);
}

void WorkerGroup::OnRendezvous(const Rank& rank, const v1::Rendezvous& rendezvous) {
  published_bytes_ += rendezvous.key().size() + rendezvous.value().size();
  if (published_bytes_ > kMostPublishedBytes) {
    return Lose(LossReason::kRankFailed,
                absl::StrCat("rank ", rank.hello.rank(), " failed: its group has published more than ",
                             kMostPublishedBytes, " bytes"));
  }
  published_.push_back(rendezvous);
  published_.back().set_rank(rank.hello.rank());
  v1::FrontendMessage message;
  *message.mutable_rendezvous() = published_.back();
  for (const auto& [number, other] : ranks_) {
    if (number != rank.hello.rank()) other.link->Send(message);
  }
}

void WorkerGroup::SendPublished(RankLink& link) const {
  v1::FrontendMessage message;
  for (const v1::Rendezvous& rendezvous : published_) {
    *message.mutable_rendezvous() = rendezvous;
    link.Send(message);
  }
}

void WorkerGroup::OnMark(const v1::WorkerMessage& message) {
  const auto lose = [this] { Lose(LossReason::kRankFailed, "rank 0 failed: it reported an unknown stage"); };
  if (message.has_stage() && IsOfThisRun(message.stage().video_id(), message.stage().attempt())) {
    const v1::StageMark& mark = message.stage();
    if (StageOf(mark).name().empty()) return lose();
    expected_step_ = absl::Seconds(mark.expected_seconds() / std::max(1, mark.total_steps()));
    listener_.OnStage(*this, mark);
  } else if (message.has_step() && IsOfThisRun(message.step().video_id(), message.step().attempt())) {
    if (StageOf(message.step()).name().empty()) return lose();
    expected_step_ = std::max(expected_step_, absl::Seconds(message.step().seconds()));
    listener_.OnStep(*this, message.step());
  } else if (message.has_resolved() && IsOfThisRun(message.resolved().video_id(), message.resolved().attempt())) {
    listener_.OnResolved(*this, message.resolved());
  } else if (message.has_preview() && IsOfThisRun(message.preview().video_id(), message.preview().attempt())) {
    if (message.preview().preview().image().size() <= kMostPreviewBytes) listener_.OnPreview(*this, message.preview());
  }
}

void WorkerGroup::OnResumeMark(const Rank& rank, const v1::ResumeMark& mark) {
  if (rank.hello.rank() != 0 || StageOf(mark.point()).name().empty()) {
    return Lose(LossReason::kRankFailed,
                absl::StrCat("rank ", rank.hello.rank(), " failed: it reported a resume point ",
                             rank.hello.rank() == 0 ? "of an unknown stage" : ", which only rank 0 may do"));
  }
  listener_.OnResume(*this, mark);
}

void WorkerGroup::OnResult(Rank& rank, const v1::RunResult& result, absl::Time now) {
  if (!IsOfThisRun(result.video_id(), result.attempt())) return;
  rank.result = result;
  v1::RunResult whole;
  for (const auto& [number, other] : ranks_) {
    if (!other.result) return;
    if (number == 0) whole = *other.result;
  }
  for (const auto& [number, other] : ranks_) {  // the failed rank's error explains the others' CANCELLED
    if (IsError(*other.result) && (!IsError(whole) || (IsCancelled(whole) && !IsCancelled(*other.result)))) {
      *whole.mutable_error() = other.result->error();
    }
  }
  for (auto& [number, other] : ranks_) other.result.reset();
  run_.reset();
  state_ = Rest();
  worn_ = IsError(whole) ? "?" : LoraKey(std::vector<v1::LoraRef>(whole.loras().begin(), whole.loras().end()));
  idle_since_ = now;
  listener_.OnRunEnded(*this, whole);
  if (state_ == State::kUnfit) listener_.OnFitness(*this);
}

void WorkerGroup::Disconnect(const RankLink& link, const absl::Status& why) {
  if (state_ == State::kLost) return;
  for (const auto& [number, rank] : ranks_) {
    if (rank.link.get() != &link) continue;
    std::string text = absl::StrCat("rank ", number, " disconnected");
    if (!why.ok()) absl::StrAppend(&text, ": ", std::string(why.message()));
    return Lose(LossReason::kDisconnected, text);
  }
}

void WorkerGroup::Start(const v1::Run& run, absl::Time now) {
  KINORA_CHECK(state_ == State::kIdle) << "group " << id_ << " is " << StateName(state_);
  state_ = State::kBusy;
  run_ = run;
  cancel_time_ = absl::InfiniteFuture();
  last_progress_ = now;
  expected_step_ = absl::ZeroDuration();
  unanswered_.clear();  // of an earlier run
  v1::FrontendMessage message;
  *message.mutable_run() = run;
  Broadcast(message);
}

void WorkerGroup::CancelRun(absl::Time now, bool keep_state) {
  if (!run_ || state_ == State::kLost || cancel_time_ != absl::InfiniteFuture()) return;
  cancel_time_ = now;
  v1::FrontendMessage message;
  message.mutable_cancel()->set_video_id(run_->video_id());
  message.mutable_cancel()->set_attempt(run_->attempt());
  message.mutable_cancel()->set_keep_state(keep_state);
  Broadcast(message);
}

void WorkerGroup::Estimate(const v1::EstimateRequest& request) {
  v1::FrontendMessage message;
  *message.mutable_estimate() = request;
  SendToRankZero(message);
}

void WorkerGroup::TellSpeeds(const v1::SpeedHistory& past) {
  v1::FrontendMessage message;
  *message.mutable_speeds() = past;
  SendToRankZero(message);
}

std::string WorkerGroup::SpeedPlace() const {
  const auto& digests = ready_.model().digests();
  std::string model = ready_.model().id();
  for (const auto& [name, digest] : std::map<std::string, std::string>(digests.begin(), digests.end())) {
    if (absl::StartsWith(name, kLoraDigest)) continue;  // they change often and do not affect the speed
    absl::StrAppend(&model, "\n", name, "=", digest);
  }
  const auto rank = ranks_.find(0);
  return absl::StrCat(Sha256Hex(model), ", ", ready_.precision(), ", ", ready_.mesh(), ", ",
                      rank == ranks_.end() ? "" : rank->second.hello.device());
}

void WorkerGroup::Drain() {
  drain_ = true;
  if (state_ == State::kIdle || state_ == State::kUnfit) state_ = State::kDrained;
  if (state_ == State::kBusy) state_ = State::kDraining;
}

void WorkerGroup::Shutdown(absl::Duration grace) {
  v1::FrontendMessage message;
  *message.mutable_shutdown()->mutable_grace() = ToProto(grace);
  Broadcast(message);
}

void WorkerGroup::Lose(LossReason reason, const std::string& why) {
  if (state_ == State::kLost) return;
  state_ = State::kLost;
  why_lost_ = why;
  const absl::Status told = absl::UnavailableError(absl::StrCat("the group is lost: ", why));
  v1::FrontendMessage abort;  // a rank that waits in a collective does not notice the end of its stream
  abort.mutable_abort()->set_why(why);
  for (auto& [number, rank] : ranks_) {
    rank.link->Send(abort);
    rank.link->Close(told);
  }
  listener_.OnLost(*this, reason, why);
}

absl::Duration WorkerGroup::StallLimit() const { return std::max(limits_.stall_floor, 10 * expected_step_); }

absl::Time WorkerGroup::CheckHealth(absl::Time now) {
  if (state_ == State::kLost) return absl::InfiniteFuture();
  const auto lose = [this](LossReason reason, const std::string& why) {
    Lose(reason, why);
    return absl::InfiniteFuture();
  };
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [number, rank] : ranks_) {
    const absl::Time limit = rank.last_heartbeat + limits_.heartbeat_timeout;
    if (now >= limit) {
      return lose(LossReason::kSilent, absl::StrCat("rank ", number, " sent no heartbeat for ",
                                                    absl::FormatDuration(now - rank.last_heartbeat)));
    }
    next = std::min(next, limit);
  }
  if (described() && !run_) return next;
  if (state_ == State::kJoining) {
    const absl::Time complete = begun_ + limits_.join_timeout;
    if (now < complete) return std::min(next, complete);
    return lose(LossReason::kIncomplete,
                absl::StrCat(Missing(), ", ", absl::FormatDuration(now - begun_), " after the first rank joined"));
  }
  if (!unanswered_.empty() || fetch_unanswered_) {  // rank 0 waits for this frontend, which may wait for a bucket
    last_progress_ = now;
    if (cancel_time_ < now) cancel_time_ = now;
  }
  const absl::Time stall = last_progress_ + StallLimit();
  if (now >= stall) {
    return lose(LossReason::kStalled,
                absl::StrCat(StateName(state_), " without progress for ", absl::FormatDuration(now - last_progress_)));
  }
  // A rank that continues with steps after a cancel makes progress, so it needs a limit of its own.
  const absl::Time cancelled = cancel_time_ + std::max(limits_.cancel_floor, 10 * expected_step_);
  if (run_ && now >= cancelled) {
    return lose(LossReason::kCancelIgnored,
                absl::StrCat("still running ", absl::FormatDuration(now - cancel_time_), " after it was cancelled"));
  }
  return std::min({next, stall, run_ ? cancelled : absl::InfiniteFuture()});
}

bool WorkerGroup::IsOfThisRun(const std::string& video_id, int32_t attempt) const {
  return run_ && run_->video_id() == video_id && run_->attempt() == attempt;
}

void WorkerGroup::SendToRankZero(const v1::FrontendMessage& message) {
  const auto rank = ranks_.find(0);
  if (state_ != State::kLost && rank != ranks_.end()) rank->second.link->Send(message);
}

void WorkerGroup::Broadcast(const v1::FrontendMessage& message) {
  if (state_ == State::kLost) return;
  for (auto& [number, rank] : ranks_) rank.link->Send(message);
}

std::string WorkerGroup::Unfit() const {
  for (const auto& [number, rank] : ranks_) {
    if (!rank.unfit.empty()) return absl::StrCat("rank ", number, ": ", rank.unfit);
  }
  return "";
}

WorkerGroup::State WorkerGroup::Rest() const {
  if (drain_) return State::kDrained;
  return Unfit().empty() ? State::kIdle : State::kUnfit;
}

std::string WorkerGroup::Missing() const {
  std::string missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (!ranks_.contains(rank)) absl::StrAppend(&missing, missing.empty() ? "waiting for rank " : ", ", rank);
  }
  if (!missing.empty()) absl::StrAppend(&missing, " of ", world_size_);
  return missing;
}

v1::WorkerGroup WorkerGroup::Describe(absl::Duration to_date) const {
  v1::WorkerGroup group;
  group.set_id(id_);
  group.set_state(StateName(state_));
  group.set_mesh(ready_.mesh());
  group.set_model(ready_.model().id());
  const std::string lack = state_ == State::kJoining ? Missing() : Unfit();
  group.set_reason(state_ == State::kLost ? why_lost_ : lack);
  if (run_) group.set_video_id(run_->video_id());
  for (const auto& [number, rank] : ranks_) {
    v1::WorkerGroup::Rank* out = group.add_ranks();
    out->set_rank(number);
    out->set_address(absl::StrCat(rank.hello.address(), " pid ", rank.hello.pid()));
    out->set_device(rank.hello.device());
    *out->mutable_last_heartbeat() = ToProto(rank.last_heartbeat + to_date);
  }
  return group;
}

}  // namespace kinora

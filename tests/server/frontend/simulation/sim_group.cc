#include "tests/server/frontend/simulation/sim_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"

namespace kinora::simulation {
namespace {

constexpr absl::Duration kSlowestMessage = absl::Milliseconds(40);
constexpr absl::Duration kBetweenBeats = absl::Seconds(2);

}  // namespace

void SimLink::Send(v1::FrontendMessage message) {
  if (!open_) return;
  to_rank_ = std::max(to_rank_, world_.now()) + world_.Between(absl::ZeroDuration(), kSlowestMessage);
  world_.At(to_rank_, [self = self_.lock(), message = std::move(message)] {
    if (self->open_) self->receive_(message);
  });
}

void SimLink::Close(const absl::Status&) {
  if (!open_) return;
  to_rank_ = std::max(to_rank_, world_.now()) + world_.Between(absl::ZeroDuration(), kSlowestMessage);
  world_.At(to_rank_, [self = self_.lock()] {
    if (std::exchange(self->open_, false)) self->closed_();
  });
}

absl::Time SimLink::Arrival() {
  to_frontend_ = std::max(to_frontend_, world_.now()) + world_.Between(absl::ZeroDuration(), kSlowestMessage);
  return to_frontend_;
}

void SimGroup::Later(absl::Duration least, absl::Duration most, World::Task task) {
  world_.After(world_.Between(least, most), [this, launch = launches_, task = std::move(task)]() mutable {
    if (launch == launches_) task();
  });
}

void SimGroup::FrontendUp(Dispatcher& dispatcher, const FrontendHealth& health) {
  frontend_ = &dispatcher;
  health_ = &health;
  if (options_.supervised) dispatcher.Supervise(id(), "", "");
  LaunchIfAllEnded();
}

void SimGroup::FrontendGone() {
  frontend_ = nullptr;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (ranks_[rank].link == nullptr) {
      if (options_.supervised) Exit(rank);  // its lifeline ended
      continue;
    }
    ranks_[rank].link->Break();
    Later(absl::ZeroDuration(), absl::Seconds(1), [this, rank] { Exit(rank); });
  }
}

void SimGroup::Launch() {
  ++launches_;
  launching_ = false;
  run_.reset();
  world_.Note(absl::StrCat("group ", id(), " starts for the ", launches_, ". time"));
  ranks_.assign(options_.ranks, {});
  if (options_.supervised) frontend_->Supervise(id(), absl::StrCat("i", launches_), "secret");
  for (int rank = 0; rank < options_.ranks; ++rank) {
    ranks_[rank].alive = true;
    Later(absl::Milliseconds(100), absl::Seconds(3), [this, rank] { Join(rank); });
  }
}

void SimGroup::LaunchIfAllEnded() {
  const bool any = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
  if (any || launching_ || (frontend_ == nullptr && options_.supervised)) return;
  launching_ = true;
  Later(absl::Milliseconds(500), absl::Seconds(4), [this] {
    launching_ = false;
    if (frontend_ != nullptr || !options_.supervised) Launch();
  });
}

void SimGroup::Join(int rank) {
  if (!ranks_[rank].alive) return;
  if (frontend_ == nullptr) return Later(absl::Seconds(1), absl::Seconds(3), [this, rank] { Join(rank); });
  const int64_t launch = launches_;
  auto link = std::make_shared<SimLink>(
      world_,
      [this, launch, rank](const v1::FrontendMessage& message) {
        if (launch == launches_) Receive(rank, message);
      },
      [this, launch, rank] {
        if (launch == launches_) Exit(rank);
      });
  link->self_ = link;
  ranks_[rank].link = link;
  v1::Hello hello;
  hello.set_group(id());
  if (options_.supervised) {
    hello.set_incarnation(absl::StrCat("i", launches_));
    hello.set_secret("secret");
  }
  hello.set_rank(rank);
  hello.set_world_size(options_.ranks);
  hello.set_commit(kCommit);
  hello.set_protocol(kProtocol);
  frontend_->Join(hello, link);
}

void SimGroup::Send(int rank, v1::WorkerMessage message) {
  const auto& link = ranks_[rank].link;
  if (!ranks_[rank].alive || link == nullptr || !link->open()) return;
  world_.At(link->Arrival(), [this, link, message = std::move(message)] {
    if (frontend_ != nullptr && link->open()) frontend_->Receive(link, message);
  });
}

void SimGroup::Beat(int rank) {
  if (!ranks_[rank].alive) return;
  if (world_.now() >= silent_until_ || rank != 0) {
    v1::WorkerMessage message;
    units_ += world_.now() >= stalled_until_ ? 1 : 0;
    message.mutable_heartbeat()->set_units_done(units_);
    message.mutable_heartbeat()->set_phase(run_ ? "run" : "idle");
    Send(rank, std::move(message));
  }
  Later(kBetweenBeats, kBetweenBeats + absl::Milliseconds(100), [this, rank] { Beat(rank); });
}

void SimGroup::Receive(int rank, const v1::FrontendMessage& message) {
  Rank& at = ranks_[rank];
  if (!at.alive) return;
  if (message.has_welcome()) {
    Beat(rank);
    Later(absl::Milliseconds(200), absl::Seconds(5), [this, rank] {
      v1::WorkerMessage ready;
      ready.mutable_ready();
      if (rank == 0) ready.mutable_ready()->mutable_model()->set_id(kModel);
      Send(rank, std::move(ready));
      ranks_[rank].ready = true;
      free_since_ = world_.now();
    });
  } else if (message.has_run()) {
    at.run = message.run();
    at.cancelled = at.keeps_state = false;
    const bool all = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.alive && r.run; });
    if (all) BeginRun();
  } else if (message.has_cancel() && at.run && at.run->video_id() == message.cancel().video_id() &&
             at.run->attempt() == message.cancel().attempt()) {
    at.cancelled = true;
    at.keeps_state = message.cancel().keep_state();
    if (rank == 0 && run_) ledger_.CancelHeard(run_->video_id(), run_->attempt());
    if (rank == 0 && run_ && at.keeps_state && frontend_ != nullptr && health_->well_since <= world_.now()) {
      options_.on_interrupted();
    }
  } else if (message.has_estimate()) {
    v1::WorkerMessage result;
    result.mutable_estimate_result()->set_id(message.estimate().id());
    result.mutable_estimate_result()->mutable_estimate()->set_seconds(20);
    result.mutable_estimate_result()->mutable_estimate()->set_fits(true);
    Send(rank, std::move(result));
  } else if (message.has_abort()) {
    Exit(rank);
  } else if (message.has_shutdown()) {
    Later(absl::Milliseconds(10), absl::Seconds(1), [this, rank] { Exit(rank); });
  }
}

void SimGroup::Exit(int rank) {
  Rank& at = ranks_[rank];
  if (!std::exchange(at.alive, false)) return;
  world_.Note(absl::StrCat("group ", id(), ": rank ", rank, " ends"));
  run_.reset();  // the others wait in a collective
  const std::string incarnation = absl::StrCat("i", launches_);
  if (at.link != nullptr) {
    at.link->Break();
    world_.At(at.link->Arrival(), [this, link = at.link] {
      if (frontend_ != nullptr) frontend_->Disconnect(link, absl::UnavailableError("the stream broke"));
    });
  }
  if (options_.supervised) {
    world_.After(world_.Between(absl::ZeroDuration(), absl::Seconds(1)), [this, incarnation] {
      if (frontend_ != nullptr) frontend_->ProcessEnded(id(), incarnation, "killed");
    });
    // A supervisor ends all processes of a group with one of them.
    for (int other = 0; other < options_.ranks; ++other) {
      Later(absl::ZeroDuration(), absl::Seconds(3), [this, other] { Exit(other); });
    }
  }
  LaunchIfAllEnded();
}

void SimGroup::OnLost(const std::string& incarnation) {
  if (!options_.supervised || incarnation != absl::StrCat("i", launches_)) return;
  for (int rank = 0; rank < options_.ranks; ++rank) Exit(rank);
}

absl::Time SimGroup::idle_since() const {
  const bool idle = frontend_ != nullptr && std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
                      return rank.alive && rank.ready && !rank.run && rank.link->open();
                    });
  return idle ? std::max(free_since_, silent_until_) : absl::InfiniteFuture();
}

void SimGroup::KillRank(int rank) { Exit(rank % options_.ranks); }
void SimGroup::Stall(absl::Duration duration) { stalled_until_ = world_.now() + duration; }
void SimGroup::Silence(absl::Duration duration) { silent_until_ = stalled_until_ = world_.now() + duration; }

// The state is the job and how many of its steps are in it, and the file's content is the same.
int SimGroup::Resumed() {
  const auto key = run_->input_paths().find("resume");
  if (!run_->has_resume_from() || key == run_->input_paths().end()) return 0;
  const std::string* const content = files_.Find(key->second);
  if (content == nullptr) return 0;  // it begins anew
  const int step = run_->resume_from().step();
  if (*content != Ledger::ClipOf(run_->video_id(), step)) {
    ledger_.Fail(absl::StrCat(run_->video_id(), " was to continue at step ", step, " with the state of ", *content));
  }
  return step;
}

bool SimGroup::DiesOfItsPoint() {
  const auto key = run_->input_paths().find("resume");
  if (key == run_->input_paths().end() || !ledger_.IsPoisoned(key->second)) return false;
  ledger_.DiedOf(key->second, *health_);
  Exit(0);
  return true;
}

absl::Status SimGroup::End() const {
  if (world_.now() < disk_full_until_) return absl::ResourceExhaustedError("the disk is full");
  return world_.Chance(0.05) ? absl::ResourceExhaustedError("the device's memory is full") : absl::OkStatus();
}

void SimGroup::BeginRun() {
  run_ = ranks_[0].run;
  ++runs_;
  points_ = 0;
  steps_ = Ledger::StepsOf(run_->video_id());
  ledger_.RunStarted(run_->video_id(), run_->attempt(), id(), frontend_ == nullptr || health_->alone);
  if (DiesOfItsPoint()) return;
  const int resumed = Resumed();
  v1::WorkerMessage resolved;
  resolved.mutable_resolved()->set_video_id(run_->video_id());
  resolved.mutable_resolved()->set_attempt(run_->attempt());
  resolved.mutable_resolved()->mutable_resolved()->set_resumed_from_step(resumed);
  if (run_->has_resume_from() && resumed == 0) {
    resolved.mutable_resolved()->mutable_resolved()->set_not_resumed_because("its file is gone");
  }
  Send(0, std::move(resolved));
  SendStage(v1::STAGE_ENCODE, 0);
  Later(absl::Milliseconds(10), absl::Seconds(1), [this, run = runs_, resumed] { Compute(run, resumed, resumed); });
}

void SimGroup::SendStage(v1::StageKind stage, int steps) {
  v1::WorkerMessage message;
  v1::StageMark& mark = *message.mutable_stage();
  mark.set_video_id(run_->video_id());
  mark.set_attempt(run_->attempt());
  mark.set_stage(stage);
  mark.set_total_steps(steps);
  mark.set_expected_seconds(3.0 * steps);
  mark.set_remaining_seconds(2.0 * steps_);
  Send(0, std::move(message));
}

void SimGroup::EndStep(int step) {
  ledger_.StepDone(run_->video_id(), run_->attempt(),
                   frontend_ == nullptr ? absl::InfiniteFuture() : health_->well_since);
  v1::WorkerMessage message;
  v1::StepMark& mark = *message.mutable_step();
  mark.set_video_id(run_->video_id());
  mark.set_attempt(run_->attempt());
  mark.set_stage(v1::STAGE_DENOISE);
  mark.set_step(step);
  mark.set_total_steps(steps_);
  mark.set_remaining_seconds(2.0 * (steps_ - step));
  Send(0, std::move(message));
}

void SimGroup::StoreState(int step) {
  if (world_.now() < disk_full_until_) return;
  const std::string content = Ledger::ClipOf(run_->video_id(), step);
  v1::WorkerMessage message;
  v1::ResumeMark& mark = *message.mutable_resume();
  mark.set_video_id(run_->video_id());
  mark.set_attempt(run_->attempt());
  mark.mutable_point()->set_id(absl::StrCat("resume-", ++points_));
  mark.mutable_point()->set_bytes(static_cast<int64_t>(content.size()));
  mark.mutable_point()->set_stage(v1::STAGE_DENOISE);
  mark.mutable_point()->set_step(step);
  mark.mutable_point()->set_total_steps(steps_);
  const std::string key = absl::StrCat(run_->artifact_key(), "/", mark.point().id());
  if (world_.Chance(0.05)) ledger_.Poison(key);
  files_.Put(key, world_.Chance(0.02) ? content.substr(1) : content);  // cut short: the disk lies
  Send(0, std::move(message));
}

// done: steps of denoising, of which `resumed` are of an earlier attempt.
void SimGroup::Compute(int64_t run, int done, int resumed) {
  if (run != runs_ || !run_) return;
  if (world_.now() < stalled_until_) {
    const absl::Duration rest = stalled_until_ - world_.now();
    return Later(rest, rest, [=, this] { Compute(run, done, resumed); });
  }
  if (done == resumed) SendStage(v1::STAGE_DENOISE, steps_);
  if (done > resumed) EndStep(done);
  const bool keeps = ranks_[0].cancelled && ranks_[0].keeps_state;
  if (done > resumed && done < steps_ && (keeps || world_.Chance(0.2))) StoreState(done);
  if (ranks_[0].cancelled) return EndRun(absl::CancelledError("stopped between two steps"));
  if (done == steps_) {
    SendStage(v1::STAGE_DECODE_VIDEO, 0);
    SendStage(v1::STAGE_FINALIZE, 0);
    return EndRun(End());
  }
  if (frontend_ != nullptr && !health_->alone) {
    ledger_.StepStarts(run_->video_id(), run_->attempt(), health_->awake_since);
  }
  Later(absl::Milliseconds(100), absl::Seconds(4), [=, this] { Compute(run, done + 1, resumed); });
}

void SimGroup::EndRun(const absl::Status& status) {
  const v1::Run run = *std::exchange(run_, std::nullopt);
  free_since_ = world_.now();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    v1::WorkerMessage message;
    v1::RunResult& result = *message.mutable_run_result();
    result.set_video_id(run.video_id());
    result.set_attempt(run.attempt());
    if (!status.ok()) {
      *result.mutable_error() = ToRpcStatus(status);
    } else if (rank == 0) {
      v1::Artifact& artifact = *result.add_artifacts();
      artifact.set_id("video.mp4");
      artifact.set_sha256(Ledger::ClipOf(run.video_id(), steps_));
      ledger_.ArtifactStored(absl::StrCat(run.artifact_key(), "/video.mp4"), artifact.sha256());
    }
    ranks_[rank].run.reset();
    Send(rank, std::move(message));
  }
}

}  // namespace kinora::simulation

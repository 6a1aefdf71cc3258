#include "tests/server/frontend/simulation/sim_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/timestamps.h"

namespace kinora::simulation {

SimClient::SimClient(World& world, Ledger& ledger, std::vector<SimFrontend*> frontends, int number)
    : world_(world),
      ledger_(ledger),
      frontends_(std::move(frontends)),
      cancels_(world.Chance(0.2)),
      tied_(world.Chance(0.15)) {
  request_.set_request_id(absl::StrCat("request", number));
  request_.set_model(world.Chance(0.5) ? SimGroup::kModel : "");
  request_.set_detach(!tied_);
  request_.mutable_scheduling()->set_priority(world.Pick(3) - 1);
  if (world.Chance(0.1)) {
    *request_.mutable_scheduling()->mutable_deadline() = ToProto(world.Between(absl::Seconds(5), absl::Minutes(3)));
  }
  world_.After(world.Between(absl::ZeroDuration(), absl::Minutes(4)), [this] { Create(); });
}

SimFrontend* SimClient::AnyFrontend() {
  std::vector<SimFrontend*> serving;
  std::copy_if(frontends_.begin(), frontends_.end(), std::back_inserter(serving),
               [](const SimFrontend* frontend) { return frontend->serving(); });
  return serving.empty() ? nullptr : serving[world_.Pick(static_cast<int>(serving.size()))];
}

void SimClient::Create() {
  if (!id_.empty() || lost_) return;
  // Tries again if no answer comes, also when the job has been created.
  world_.After(world_.Between(absl::Seconds(2), absl::Seconds(8)), [this] { Create(); });
  SimFrontend* const frontend = watched_ != nullptr ? watched_ : AnyFrontend();
  if (frontend == nullptr || !frontend->serving()) return;
  if (tied_) watched_ = frontend;  // the one stream that creates and watches
  frontend->Create(request_, [this](const absl::StatusOr<Created>& created) { OnCreated(created); });
}

void SimClient::OnCreated(const absl::StatusOr<Created>& created) {
  if (!created.ok() || lost_) return;
  ledger_.Created(request_.request_id(), created->video.id());
  if (!id_.empty()) return;
  id_ = created->video.id();
  Watch();
  if (cancels_) world_.After(world_.Between(absl::ZeroDuration(), absl::Seconds(60)), [this] { Cancel(); });
}

void SimClient::Watch() {
  if (ended()) return;
  watched_ = tied_ ? watched_ : AnyFrontend();
  if (watched_ == nullptr) {
    world_.After(world_.Between(absl::Seconds(1), absl::Seconds(3)), [this] { Watch(); });
    return;
  }
  auto opened = JobWatch::Open(watched_->events(), id_, last_sequence_,
                               [this] { world_.After(absl::ZeroDuration(), [this] { Pump(); }); });
  if (!opened.ok()) return ledger_.Fail("a watch was refused");
  watch_ = *std::move(opened);
  watch_->Start();
}

void SimClient::Pump() {
  while (watch_ != nullptr) {
    const absl::StatusOr<std::optional<v1::VideoEvent>> next = watch_->Next();
    if (!next.ok()) {
      if (!absl::IsUnavailable(next.status())) {
        ledger_.Fail(absl::StrCat("the watch of ", id_, ": ", std::string(next.status().message())));
      }
      EndWatch();
      world_.After(absl::Seconds(1), [this] { Watch(); });
      return;
    }
    if (!next->has_value()) return;
    See(**next);
    if (ended_) EndWatch();
  }
}

void SimClient::See(const v1::VideoEvent& event) {
  if (event.has_snapshot() || event.has_step() || event.has_heartbeat()) return;
  if (event.sequence() != last_sequence_ + 1) {
    ledger_.Fail(absl::StrCat("the watch of ", id_, " saw event ", event.sequence(), " after ", last_sequence_));
  }
  last_sequence_ = event.sequence();
  ended_ |= event.has_terminal();
}

void SimClient::EndWatch() {
  if (!tied_) watched_ = nullptr;
  if (watch_ != nullptr) watch_->Close();
  watch_.reset();
}

void SimClient::Cancel() {
  if (ended()) return;
  if (SimFrontend* const frontend = AnyFrontend()) {
    world_.Note(absl::StrCat("a client cancels ", id_));
    frontend->Cancel(id_, [](const absl::StatusOr<v1::Video>&) {});
  }
  // Until it has seen the end: the first call may have been lost.
  world_.After(absl::Seconds(20), [this] { Cancel(); });
}

void SimClient::FrontendGone(const SimFrontend& frontend) {
  if (watched_ != &frontend) return;
  EndWatch();
  if (tied_) {
    lost_ = true;
    if (!id_.empty() && !ended_) ledger_.ClientLost(id_);
    return;
  }
  world_.After(world_.Between(absl::Seconds(1), absl::Seconds(3)), [this] { Watch(); });
}

}  // namespace kinora::simulation

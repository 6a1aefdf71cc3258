#include "server/frontend/frontend_sharing.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/config/config.h"
#include "server/frontend/peers/group_lists.h"
#include "server/net/event_loop.h"

namespace kinora {

absl::Status FrontendSharing::Start(std::function<void(const JobId&)> cancel_left) {
  if (!parts_.stores.is_shared()) return absl::OkStatus();
  SharedClientsOptions of_clients{.id = entry_.id, .cancel = std::move(cancel_left)};
  of_clients.grace = absl::Seconds(config_.disconnect_grace_seconds());
  shared_clients_ = std::make_unique<SharedClients>(parts_.hub, *parts_.stores.shared_clients(), std::move(of_clients),
                                                    std::make_unique<EventLoop>(parts_.steady));
  for (const auto& [id, processes] : OutsideGroupsOf(config_)) awaited_.insert(id);
  GroupHomesOptions of_homes{.frontend = entry_, .awaited = awaited_};
  of_homes.list = [this](Done<std::vector<v1::WorkerGroup>> done) { dispatcher_->ListGroups(std::move(done)); };
  homes_ = std::make_unique<GroupHomes>(*parts_.stores.shared_frontends(), std::move(of_homes),
                                        std::make_unique<EventLoop>(parts_.steady));
  if (config_.peer_address().empty()) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(PeersOptions of_peers, PeersOptionsOf(config_, entry_.id));
  peers_ = std::make_unique<Peers>(*parts_.stores.shared_frontends(), std::move(of_peers),
                                   std::make_unique<EventLoop>(parts_.steady));
  relay_ = std::make_unique<ProgressRelay>(parts_.hub, *peers_);
  return absl::OkStatus();
}

void FrontendSharing::AddTo(DispatcherOptions& options) {
  if (homes_ != nullptr) {
    options.is_elsewhere = [this](const std::string& group, Done<bool> done) {
      homes_->IsElsewhere(group, std::move(done));
    };
  }
  if (peers_ == nullptr) return;
  options.estimate_elsewhere = [this](const std::string& model, const v1::Generation& effective, bool is_job,
                                      Done<v1::Estimate> done) {
    peers_->Estimate(model, effective, is_job, std::move(done));
  };
}

absl::Status FrontendSharing::Serve(JobMetrics& metrics, FrontendMetrics& gauges) {
  if (peers_ == nullptr) return absl::OkStatus();
  PeerAnswers answers{.hub = parts_.hub};
  answers.on_news = [this](const v1::News& news) { OnNews(news); };
  answers.estimate = [this](const v1::PeerEstimateRequest& request, Done<v1::Estimate> done) {
    constexpr auto kHere = Dispatcher::Asks::kGroupsHere;
    if (request.is_job()) {
      dispatcher_->EstimateShape(request.model(), request.generation(), std::move(done), kHere);
    } else {
      dispatcher_->Estimate(request.model(), request.generation(), std::move(done), kHere);
    }
  };
  answers.groups = ControlOfOwn();
  KINORA_ASSIGN_OR_RETURN(server_, PeerServer::Start(config_, metrics, gauges, std::move(answers)));
  return absl::OkStatus();
}

void FrontendSharing::OnNews(const v1::News& news) {
  // The database has the last word on what is cancelled.
  if (news.cancelled()) {
    dispatcher_->LookAtStore();
  } else if (news.queued()) {
    dispatcher_->LookForWork();
  }
  if (news.changed_size() > 0) parts_.events->ReadNow({news.changed().begin(), news.changed().end()});
}

void FrontendSharing::Tell(const v1::VideoEvent& event) {
  if (peers_ == nullptr) return;
  v1::News news;
  news.add_changed(event.video_id());
  news.set_queued(event.has_state() && event.state().state() == v1::Video::QUEUED);
  peers_->Tell(news);
}

void FrontendSharing::TellCancelled() {
  if (peers_ == nullptr) return;
  v1::News news;
  news.set_cancelled(true);
  peers_->Tell(news);
}

GroupControl FrontendSharing::ControlOfOwn() {
  GroupControl control;
  control.list = [this](Done<std::vector<v1::WorkerGroup>> done) {
    dispatcher_->ListGroups(
        [this, done = std::move(done)](absl::StatusOr<std::vector<v1::WorkerGroup>> groups) mutable {
          if (groups.ok()) NameFrontend(entry_.peer_address, awaited_, *groups);
          done(std::move(groups));
        });
  };
  control.drain = [this](const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
    dispatcher_->DrainGroup(request.id(), std::move(done));
  };
  control.restart = [this](const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
    dispatcher_->RestartGroup(request.id(), std::move(done));
  };
  return control;
}

GroupControl FrontendSharing::ControlOfOwnAlone() {
  GroupControl control = ControlOfOwn();
  for (auto* change : {&control.drain, &control.restart}) {
    *change = [change = *change](const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
      if (request.frontend().empty()) return change(request, std::move(done));
      done(absl::NotFoundError("frontend: this one knows only its own groups, since it has no peer_address"));
    };
  }
  return control;
}

GroupControl FrontendSharing::Control() {
  if (peers_ == nullptr) return ControlOfOwnAlone();
  GroupControl control;
  control.list = [this](Done<std::vector<v1::WorkerGroup>> done) { ListAll(std::move(done)); };
  control.drain = [this](const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
    Change(request, /*drain=*/true, std::move(done));
  };
  control.restart = [this](const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
    Change(request, /*drain=*/false, std::move(done));
  };
  return control;
}

void FrontendSharing::ListAll(Done<std::vector<v1::WorkerGroup>> done) {
  using Lists = std::vector<std::vector<v1::WorkerGroup>>;
  ControlOfOwn().list([this, done = std::move(done)](absl::StatusOr<std::vector<v1::WorkerGroup>> own) mutable {
    if (!own.ok()) return done(std::move(own));
    peers_->ListGroups([own = *std::move(own), done = std::move(done)](absl::StatusOr<Lists> lists) mutable {
      if (!lists.ok()) return done(lists.status());
      lists->push_back(std::move(own));
      done(JoinGroupLists(*lists));
    });
  });
}

void FrontendSharing::Change(const v1::WorkerGroupRequest& request, bool drain, Done<v1::WorkerGroup> done) {
  if (!request.frontend().empty()) return ChangeAt(request, drain, std::move(done));
  ListAll([this, request, drain, done = std::move(done)](absl::StatusOr<std::vector<v1::WorkerGroup>> groups) mutable {
    if (!groups.ok()) return done(groups.status());
    const absl::StatusOr<std::string> frontend = FrontendOfGroup(*groups, request.id());
    if (!frontend.ok()) return done(frontend.status());
    v1::WorkerGroupRequest at = request;
    at.set_frontend(*frontend);
    ChangeAt(at, drain, std::move(done));
  });
}

void FrontendSharing::ChangeAt(const v1::WorkerGroupRequest& request, bool drain, Done<v1::WorkerGroup> done) {
  if (request.frontend().empty() || request.frontend() == entry_.peer_address) {
    const GroupControl own = ControlOfOwn();
    return (drain ? own.drain : own.restart)(request, std::move(done));
  }
  drain ? peers_->DrainGroup(request, std::move(done)) : peers_->RestartGroup(request, std::move(done));
}

void FrontendSharing::BeginDrain() {
  if (homes_ != nullptr) homes_->BeginDrain();
}

void FrontendSharing::Leave() {
  if (!parts_.stores.is_shared()) return;
  absl::Notification left;
  parts_.stores.shared_frontends()->RemoveFrontend(entry_.id, [&](const absl::Status& status) {
    if (!status.ok()) Log(Severity::kWarning, "frontend_not_removed", {{"why", std::string(status.message())}});
    left.Notify();
  });
  left.WaitForNotification();
}

void FrontendSharing::Stop() {
  if (server_ != nullptr) server_->Shutdown(absl::ZeroDuration());
  if (peers_ != nullptr) peers_->Stop();
  if (homes_ != nullptr) homes_->Stop();
  if (shared_clients_ != nullptr) shared_clients_->Stop();
}

}  // namespace kinora

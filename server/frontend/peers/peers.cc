#include "server/frontend/peers/peers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr absl::Duration kTell = absl::Seconds(2);
constexpr absl::Duration kList = absl::Seconds(3);
constexpr absl::Duration kEstimate = absl::Seconds(20);
constexpr absl::Duration kShape = absl::Seconds(2);  // for a job that is being created
constexpr int kMostNews = 1000;                      // about jobs, while a frontend does not answer

void Merge(const v1::News& news, v1::News& into) {
  if (into.changed_size() < kMostNews) into.mutable_changed()->MergeFrom(news.changed());
  into.set_cancelled(into.cancelled() || news.cancelled());
  into.set_queued(into.queued() || news.queued());
}

v1::WorkerGroup Unreachable(const FrontendEntry& frontend, const absl::Status& why) {
  v1::WorkerGroup group;
  group.set_state("unreachable");
  group.set_frontend(frontend.peer_address);
  group.set_reason(absl::StrCat("the frontend does not list its groups: ", std::string(why.message())));
  return group;
}

}  // namespace

Peers::Peers(SharedFrontendRecords& records, PeersOptions options, std::unique_ptr<Executor> loop)
    : records_(records), options_(std::move(options)), loop_(std::move(loop)) {
  loop_->Post([this] { Refresh(); });
}

void Peers::Stop() {
  loop_->Stop();
  absl::MutexLock lock(&mu_);
  stopped_ = true;
  for (grpc::ClientContext* context : open_) context->TryCancel();
}

bool Peers::Open(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(GrpcDeadline(timeout));
  if (!options_.token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", options_.token));
  absl::MutexLock lock(&mu_);
  if (stopped_) return false;
  open_.insert(&context);
  return true;
}

void Peers::Close(grpc::ClientContext& context) {
  absl::MutexLock lock(&mu_);
  open_.erase(&context);
}

std::shared_ptr<grpc::Channel> Peers::Dial(const std::string& address) const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  if (!options_.certified_name.empty()) arguments.SetSslTargetNameOverride(options_.certified_name);
  return grpc::CreateCustomChannel(address, options_.credentials, arguments);
}

void Peers::Refresh() {
  loop_->PostAt(loop_->Now() + options_.refresh, [this] { Refresh(); });
  records_.LivingFrontends([this](absl::StatusOr<std::vector<FrontendEntry>> frontends) {
    if (!frontends.ok()) return;  // those known may still be there
    loop_->Post([this, frontends = *std::move(frontends)] { OnFrontends(frontends); });
  });
}

void Peers::OnFrontends(const std::vector<FrontendEntry>& frontends) {
  std::map<FrontendId, PeerPtr> peers;
  std::set<std::string> addresses = {"",
                                     options_.address};  // a frontend that was started again replaces the one before
  for (const FrontendEntry& frontend : frontends) {
    if (frontend.id == options_.id || !addresses.insert(frontend.peer_address).second) continue;
    PeerPtr& peer = peers[frontend.id];
    if (const auto known = peers_.find(frontend.id); known != peers_.end()) {
      peer = known->second;
      continue;
    }
    Log(Severity::kInfo, "frontend_found", {{"frontend", frontend.id}, {"peer_address", frontend.peer_address}});
    peer = std::make_shared<Peer>();
    peer->frontend = frontend;
    peer->stub = v1::Peer::NewStub(Dial(frontend.peer_address));
  }
  for (const auto& [id, peer] : peers_) {
    if (!peers.contains(id)) Log(Severity::kInfo, "frontend_gone", {{"frontend", id}});
  }
  peers_ = std::move(peers);
}

std::vector<Peers::PeerPtr> Peers::all() const {
  std::vector<PeerPtr> peers;
  peers.reserve(peers_.size());
  for (const auto& [id, peer] : peers_) peers.push_back(peer);
  return peers;
}

void Peers::Tell(const v1::News& news) {
  loop_->Post([this, news] {
    for (const auto& [id, peer] : peers_) {
      Merge(news, peer->news);
      if (!peer->telling) SendNews(peer);
    }
  });
}

// One call at a time for each frontend; later news waits for the next call.
void Peers::SendNews(const PeerPtr& peer) {
  peer->telling = true;
  Call<v1::News, google::protobuf::Empty>(
      peer, &v1::Peer::StubInterface::async_interface::TellNews, std::exchange(peer->news, v1::News()), kTell,
      [this, peer](const absl::StatusOr<google::protobuf::Empty>&) {  // after an error, the others look at the database
        peer->telling = false;
        if (peer->news.ByteSizeLong() > 0 && peers_.contains(peer->frontend.id)) SendNews(peer);
      });
}

void Peers::Estimate(const std::string& model, const v1::Generation& effective, bool is_job, Done<v1::Estimate> done) {
  v1::PeerEstimateRequest request;
  request.set_is_job(is_job);
  request.set_model(model);
  *request.mutable_generation() = effective;
  loop_->Post([this, request, done = std::move(done)]() mutable {
    EstimateAt(all(), request, loop_->Now() + (request.is_job() ? kShape : kEstimate), std::move(done));
  });
}

// A frontend that does not answer takes only its share of the time.
void Peers::EstimateAt(std::vector<PeerPtr> peers, const v1::PeerEstimateRequest& request, absl::Time end,
                       Done<v1::Estimate> done) {
  if (peers.empty()) return done(absl::UnavailableError("no other frontend has a group with the model, or answers"));
  const absl::Duration timeout = (end - loop_->Now()) / static_cast<int64_t>(peers.size());
  const PeerPtr peer = peers.back();
  peers.pop_back();
  auto shared = std::make_shared<Done<v1::Estimate>>(std::move(done));
  Call<v1::PeerEstimateRequest, v1::Estimate>(
      peer, &v1::Peer::StubInterface::async_interface::EstimateVideo, request, timeout,
      [this, peers = std::move(peers), request, end, shared](absl::StatusOr<v1::Estimate> estimate) {
        const bool is_answer = estimate.ok() || absl::IsInvalidArgument(estimate.status());
        if (!is_answer) return EstimateAt(peers, request, end, std::move(*shared));
        (*shared)(std::move(estimate));
      });
}

void Peers::ListGroups(Done<std::vector<std::vector<v1::WorkerGroup>>> done) {
  struct Round {
    std::vector<std::vector<v1::WorkerGroup>> lists;
    size_t awaited = 0;
    Done<std::vector<std::vector<v1::WorkerGroup>>> done;
  };
  loop_->Post([this, done = std::move(done)]() mutable {
    if (peers_.empty()) return done(std::vector<std::vector<v1::WorkerGroup>>());
    auto round = std::make_shared<Round>();
    round->awaited = peers_.size();
    round->done = std::move(done);
    for (const auto& [id, peer] : peers_) {
      Call<google::protobuf::Empty, v1::ListWorkerGroupsResponse>(
          peer, &v1::Peer::StubInterface::async_interface::ListWorkerGroups, google::protobuf::Empty(), kList,
          [round, peer = peer](const absl::StatusOr<v1::ListWorkerGroupsResponse>& listed) {
            std::vector<v1::WorkerGroup>& list = round->lists.emplace_back();
            if (listed.ok()) {
              list.assign(listed->groups().begin(), listed->groups().end());
            } else {
              list.push_back(Unreachable(peer->frontend, listed.status()));
            }
            if (--round->awaited == 0) round->done(std::move(round->lists));
          });
    }
  });
}

void Peers::ChangeGroup(Method<v1::WorkerGroupRequest, v1::WorkerGroup> method, const v1::WorkerGroupRequest& request,
                        Done<v1::WorkerGroup> done) {
  loop_->Post([this, method, request, done = std::move(done)]() mutable {
    const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const auto& entry) {
      return entry.second->frontend.peer_address == request.frontend();
    });
    if (found == peers_.end()) {
      return done(absl::NotFoundError(absl::StrCat("frontend: no frontend has the peer address \"", request.frontend(),
                                                   "\"; `kinora admin list` shows those with groups")));
    }
    auto shared = std::make_shared<Done<v1::WorkerGroup>>(std::move(done));
    Call<v1::WorkerGroupRequest, v1::WorkerGroup>(
        found->second, method, request, kList,
        [shared](absl::StatusOr<v1::WorkerGroup> group) { (*shared)(std::move(group)); });
  });
}

void Peers::DrainGroup(const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
  ChangeGroup(&v1::Peer::StubInterface::async_interface::DrainWorkerGroup, request, std::move(done));
}

void Peers::RestartGroup(const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
  ChangeGroup(&v1::Peer::StubInterface::async_interface::RestartWorkerGroup, request, std::move(done));
}

}  // namespace kinora

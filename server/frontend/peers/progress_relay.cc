#include "server/frontend/peers/progress_relay.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kinora {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(3);
constexpr size_t kMostReplyBytes = 2 << 20;

}  // namespace

v1::ProgressReply ProgressHere(const EventHub& hub, const v1::ProgressRequest& request) {
  v1::ProgressReply reply;
  size_t bytes = 0;
  for (const auto& entry : request.known()) {
    const std::string& id = entry.first;
    const int64_t known = entry.second;
    const std::optional<EventHub::Latest> latest = hub.LatestHere(id);
    if (!latest) continue;
    reply.add_running(id);
    if (bytes > kMostReplyBytes) continue;
    const auto add = [&](const std::optional<v1::VideoEvent>& mark, int64_t version) {
      if (!mark || version <= known) return;
      bytes += mark->ByteSizeLong();
      *reply.add_events() = *mark;
    };
    add(latest->step, latest->step_version);
    add(latest->preview, latest->preview_version);
    const int64_t version = std::max(latest->step_version, latest->preview_version);
    if (version > known) (*reply.mutable_versions())[id] = version;
  }
  return reply;
}

ProgressRelay::ProgressRelay(EventHub& hub, Peers& peers, absl::Duration interval)
    : hub_(hub), peers_(peers), interval_(interval) {
  peers_.loop().Post([this] { Ask(); });
}

void ProgressRelay::Ask() {
  peers_.loop().PostAt(peers_.loop().Now() + interval_, [this] { Ask(); });
  const std::vector<Peers::PeerPtr> peers = peers_.all();
  std::erase_if(asked_, [&](const auto& entry) {
    return std::none_of(peers.begin(), peers.end(),
                        [&](const Peers::PeerPtr& peer) { return peer->frontend.id == entry.first; });
  });
  const std::vector<std::string> wanted = hub_.WantedFromElsewhere();
  if (wanted.empty()) return;
  for (const Peers::PeerPtr& peer : peers) AskOne(peer, wanted);
}

void ProgressRelay::AskOne(const Peers::PeerPtr& peer, const std::vector<std::string>& wanted) {
  Asked& asked = asked_[peer->frontend.id];
  if (std::exchange(asked.open, true)) return;
  v1::ProgressRequest request;
  for (const std::string& id : wanted) {
    const auto version = asked.versions.find(id);
    (*request.mutable_known())[id] = version == asked.versions.end() ? 0 : version->second;
  }
  peers_.Call<v1::ProgressRequest, v1::ProgressReply>(
      peer, &v1::Peer::StubInterface::async_interface::GetProgress, std::move(request), kTimeout,
      [this, id = peer->frontend.id](const absl::StatusOr<v1::ProgressReply>& reply) {
        const auto found = asked_.find(id);
        if (found == asked_.end()) return;  // it is gone
        found->second.open = false;
        if (reply.ok()) OnReply(found->second, *reply);
      });
}

void ProgressRelay::OnReply(Asked& asked, const v1::ProgressReply& reply) {
  std::map<std::string, int64_t> versions;
  for (const std::string& id : reply.running()) versions[id] = asked.versions[id];
  for (const auto& [id, version] : asked.versions) {
    if (!versions.contains(id)) hub_.EndRelay(id);
  }
  for (const auto& [id, version] : reply.versions()) versions[id] = version;
  asked.versions = std::move(versions);
  for (const v1::VideoEvent& event : reply.events()) hub_.Relay(event);
}

}  // namespace kinora

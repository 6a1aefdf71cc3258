// Brings the steps and previews of runs at other frontends to the watchers of this one. Other frontends are asked at
// intervals, and only about jobs that somebody here is interested in.
#ifndef KINORA_SERVER_FRONTEND_PEERS_PROGRESS_RELAY_H_
#define KINORA_SERVER_FRONTEND_PEERS_PROGRESS_RELAY_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "kinora/v1/peer.pb.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/peers/peers.h"

namespace kinora {

// Answers Peer.GetProgress from the runs of this frontend.
v1::ProgressReply ProgressHere(const EventHub& hub, const v1::ProgressRequest& request);

class ProgressRelay {
 public:
  // Neither is owned; stop `peers` before this is destroyed.
  ProgressRelay(EventHub& hub, Peers& peers, absl::Duration interval = absl::Seconds(1));

 private:
  struct Asked {
    bool open = false;                        // a call
    std::map<std::string, int64_t> versions;  // of the jobs that run there
  };
  void Ask();
  void AskOne(const Peers::PeerPtr& peer, const std::vector<std::string>& wanted);
  void OnReply(Asked& asked, const v1::ProgressReply& reply);

  EventHub& hub_;
  Peers& peers_;
  const absl::Duration interval_;
  std::map<FrontendId, Asked> asked_;  // on the loop of peers_
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_PEERS_PROGRESS_RELAY_H_

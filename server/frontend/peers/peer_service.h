// Answers the calls of other frontends (peer.proto), from the groups and runs of this one.
#ifndef KINORA_SERVER_FRONTEND_PEERS_PEER_SERVICE_H_
#define KINORA_SERVER_FRONTEND_PEERS_PEER_SERVICE_H_

#include <functional>
#include <memory>

#include "kinora/v1/peer.pb.h"
#include "server/frontend/api/server_call.h"
#include "server/frontend/api/video_service.h"
#include "server/frontend/jobs/event_hub.h"

namespace kinora {

struct PeerAnswers {
  EventHub& hub;  // not owned
  std::function<void(const v1::News&)> on_news;
  std::function<void(const v1::PeerEstimateRequest&, Done<v1::Estimate>)> estimate;
  GroupControl groups;  // of this frontend alone
};

std::unique_ptr<grpc::Service> MakePeerService(PeerAnswers answers, const CallAccess& access);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_PEERS_PEER_SERVICE_H_

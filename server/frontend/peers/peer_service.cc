#include "server/frontend/peers/peer_service.h"

#include <utility>
#include <vector>

#include "server/frontend/api/method_service.h"
#include "server/frontend/peers/progress_relay.h"

namespace kinora {
namespace {

class PeerService : public MethodService {
 public:
  PeerService(PeerAnswers answers, const CallAccess& access)
      : MethodService(v1::News::descriptor()->file()->FindServiceByName("Peer"), access), answers_(std::move(answers)) {
    Unary("TellNews", &PeerService::TellNews);
    Unary("GetProgress", &PeerService::GetProgress);
    Unary("EstimateVideo", &PeerService::Estimate);
    Unary("ListWorkerGroups", &PeerService::List);
    Unary("DrainWorkerGroup", &PeerService::Drain);
    Unary("RestartWorkerGroup", &PeerService::Restart);
  }

 private:
  void TellNews(const v1::News& news, UnaryReply<google::protobuf::Empty> reply) {
    answers_.on_news(news);
    reply(google::protobuf::Empty());
  }
  void GetProgress(const v1::ProgressRequest& request, UnaryReply<v1::ProgressReply> reply) {
    reply(ProgressHere(answers_.hub, request));
  }
  void Estimate(const v1::PeerEstimateRequest& request, UnaryReply<v1::Estimate> reply) {
    answers_.estimate(request, reply);
  }
  void List(const google::protobuf::Empty&, UnaryReply<v1::ListWorkerGroupsResponse> reply) {
    answers_.groups.list([reply](const absl::StatusOr<std::vector<v1::WorkerGroup>>& groups) {
      if (!groups.ok()) return reply(groups.status());
      v1::ListWorkerGroupsResponse listed;
      listed.mutable_groups()->Assign(groups->begin(), groups->end());
      reply(listed);
    });
  }
  void Drain(const v1::WorkerGroupRequest& request, UnaryReply<v1::WorkerGroup> reply) {
    answers_.groups.drain(request, reply);
  }
  void Restart(const v1::WorkerGroupRequest& request, UnaryReply<v1::WorkerGroup> reply) {
    answers_.groups.restart(request, reply);
  }

  const PeerAnswers answers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePeerService(PeerAnswers answers, const CallAccess& access) {
  return std::make_unique<PeerService>(std::move(answers), access);
}

}  // namespace kinora

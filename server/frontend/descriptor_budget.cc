#include "server/frontend/descriptor_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/config/config.h"
#include "server/frontend/api/frontend_server.h"
#include "server/frontend/groups/join_service.h"
#include "server/frontend/peers/peer_server.h"
#include "server/net/http_pages.h"

namespace kinora {
namespace {

constexpr int64_t kProcess = 64;
constexpr int64_t kStore = 64;
constexpr int64_t kBucket = 160;       // connections of its lanes, each with four parts, idle ones, and spooled files
constexpr int64_t kPerWorker = 8;      // two for its connection, three for pipes
constexpr int64_t kPerConnection = 2;  // gRPC's, and one to detect its end
constexpr int kFewest = 16;

}  // namespace

absl::StatusOr<DescriptorBudget> DivideDescriptors(int64_t limit, const v1::FrontendConfig& config) {
  int64_t processes = 1;  // one that is started outside may join at the socket
  for (const v1::GroupConfig& group : GroupsOf(config)) processes += group.processes();
  DescriptorBudget budget{
      .limit = limit,
      .process = kProcess,
      .store = kStore + (IsBucketUrl(config.artifacts()) ? kBucket : 0),
      .pages = config.http_address().empty() ? 0 : HttpPages::kMaxConnections,
      .admin = kPerConnection * FrontendServer::kMaxAdminConnections,
      .gateway = WebAddressOf(config).empty() ? 0 : kPerConnection * FrontendServer::kMaxGatewayConnections,
      .join = config.join_address().empty() ? 0 : kPerConnection * JoinServer::kMaxConnections,
      .peers = config.peer_address().empty() ? 0 : 2 * kPerConnection * PeerServer::kMaxConnections,
      .workers = kPerWorker * processes};
  const int64_t others = budget.process + budget.store + budget.pages + budget.admin + budget.gateway + budget.join +
                         budget.peers + budget.workers;
  const int64_t left = std::max<int64_t>(0, limit - others) / kPerConnection;
  budget.connections = static_cast<int>(std::min<int64_t>(config.max_connections(), left));
  if (budget.connections >= std::min(kFewest, config.max_connections())) return budget;
  return absl::FailedPreconditionError(absl::StrCat("ulimit -n: ", limit, " open files are too few; ",
                                                    others + kPerConnection * kFewest, " are the minimum, and ",
                                                    others + kPerConnection * config.max_connections(),
                                                    " are needed for max_connections, ", config.max_connections()));
}

std::string DescriptorBudget::ToString() const {
  return absl::StrCat(process, " process, ", store, " store, ", pages, " pages, ", admin, " admin, ", gateway,
                      " gateway, ", join, " join, ", peers, " peers, ", workers, " workers, ",
                      kPerConnection * connections, " for ", connections, " connections, ", downloads, " downloads");
}

}  // namespace kinora

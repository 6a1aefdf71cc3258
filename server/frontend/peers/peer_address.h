// How this frontend calls others, and where others and ranks reach it, from its configuration.
#ifndef KINORA_SERVER_FRONTEND_PEERS_PEER_ADDRESS_H_
#define KINORA_SERVER_FRONTEND_PEERS_PEER_ADDRESS_H_

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "server/frontend/jobs/frontend_records.h"
#include "server/frontend/peers/peers.h"

namespace kinora {

FrontendEntry EntryOf(const v1::FrontendConfig& config, const FrontendId& id);

// Reads the token and the certificates. Errors name the field of a file that cannot be used.
absl::StatusOr<PeersOptions> PeersOptionsOf(const v1::FrontendConfig& config, const FrontendId& id);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_PEERS_PEER_ADDRESS_H_

#include "server/frontend/peers/peer_address.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/common/regular_file.h"
#include "server/common/token_text.h"
#include "server/config/config.h"
#include "server/net/grpc_credentials.h"

namespace kinora {
namespace {

absl::Status Renamed(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrReplaceAll(std::string(status.message()),
                                                         {{"tls.ca_file", "peer_ca_file"},
                                                          {"tls.certificate_file", "peer_tls.certificate_file"},
                                                          {"tls.key_file", "peer_tls.key_file"}}));
}

absl::Status OfTokens(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("peer_token_file: ", std::string(status.message())));
}

}  // namespace

FrontendEntry EntryOf(const v1::FrontendConfig& config, const FrontendId& id) {
  return {.id = id,
          .address = config.address(),
          .peer_address = AdvertisedPeerAddress(config),
          .join_address = AdvertisedJoinAddress(config)};
}

absl::StatusOr<PeersOptions> PeersOptionsOf(const v1::FrontendConfig& config, const FrontendId& id) {
  PeersOptions options{.id = id, .address = AdvertisedPeerAddress(config)};
  options.certified_name = config.peer_server_name();
  v1::ClientTlsConfig tls;
  tls.set_ca_file(config.peer_ca_file());
  tls.set_certificate_file(config.peer_tls().certificate_file());
  tls.set_key_file(config.peer_tls().key_file());
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = MakeChannelCredentials(tls);
  if (!credentials.ok()) return Renamed(credentials.status());
  options.credentials = *std::move(credentials);
  if (config.peer_token_file().empty()) return options;
  const absl::StatusOr<RegularFile> file = ReadRegularFile(config.peer_token_file());
  if (!file.ok()) return OfTokens(file.status());
  const absl::StatusOr<std::vector<std::string>> tokens = ParseTokens(file->bytes);
  if (!tokens.ok()) return OfTokens(tokens.status());
  if (!tokens->empty()) options.token = tokens->front();  // PeerServer requires one
  return options;
}

}  // namespace kinora

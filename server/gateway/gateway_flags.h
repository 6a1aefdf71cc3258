// The flags of kinora-gateway.
#ifndef KINORA_SERVER_GATEWAY_GATEWAY_FLAGS_H_
#define KINORA_SERVER_GATEWAY_GATEWAY_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

struct GatewayFlags {
  bool help = false, version = false;
  std::string address = "127.0.0.1:8472";
  std::vector<std::string> frontends;  // never empty
  std::vector<std::string> admins;     // admin addresses of frontends; may be empty
  bool frontend_tls = false;
  std::string frontend_tls_ca;  // "": the system's
  std::vector<std::string> hosts;
  std::vector<std::string> trusted_proxies;
  v1::TlsConfig tls;
  bool insecure = false;
  std::string scratch_folder;
  std::string link_key_file;  // "": a random key
  std::vector<std::string> input_url_hosts;
  std::string input_url_ca;  // "": the system's
  absl::Duration input_url_timeout = absl::Minutes(2);
  int64_t max_upload_bytes = int64_t{1} << 30;
  int64_t max_scratch_bytes = int64_t{8} << 30;
  int64_t max_body_memory_bytes = int64_t{256} << 20;
  int max_connections = 1000, max_connections_per_client = 250;
  double max_requests_per_second = 200;
  absl::Duration timeout = absl::Seconds(30);  // of a call to the frontend
  absl::Duration drain_grace = absl::Seconds(20);
  int threads = 2;
  bool json_log = false;
  // Set by a frontend that starts the gateway:
  int lifeline_fd = 0;          // lifeline.h; 0: none
  std::vector<int> listen_fds;  // sockets that it has bound to `address`; empty: the gateway binds them
};

absl::Span<const FlagSpec> GatewayFlagSpecs();  // what --help lists, with --help and --version

// Reads $KINORA_SERVER and $KINORA_TLS_CA where the flags are absent, as `kinora` does. InvalidArgument names the flag.
absl::StatusOr<GatewayFlags> ParseGatewayFlags(absl::Span<const std::string> arguments);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_GATEWAY_FLAGS_H_

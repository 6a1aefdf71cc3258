// The two ends of TLS, from the files that a configuration names.
#ifndef KINORA_SERVER_COMMON_GRPC_CREDENTIALS_H_
#define KINORA_SERVER_COMMON_GRPC_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

// What becomes of a client that shows no certificate, where client_ca_file asks for one; a wrong one never connects.
enum class NoClientCertificate {
  kDoesNotConnect,
  kIsSeenByTheService,  // which must look at auth_context()->IsPeerAuthenticated() itself
};

// Plain text without a certificate. `field` of the configuration: as LoadTlsFiles. Logs when the chain expires.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const v1::TlsConfig& tls,
                                                                               const std::string& field,
                                                                               NoClientCertificate otherwise);

// Plain text without a ca_file. NotFound, InvalidArgument, …: a file that cannot be read, with its field.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const v1::ClientTlsConfig& tls);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_GRPC_CREDENTIALS_H_

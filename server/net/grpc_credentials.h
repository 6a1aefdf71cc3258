// TLS credentials for servers and clients, from the files that a configuration names.
#ifndef KINORA_SERVER_NET_GRPC_CREDENTIALS_H_
#define KINORA_SERVER_NET_GRPC_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

// How to treat a client without a certificate when client_ca_file requests one. A client with an invalid certificate
// never connects.
enum class NoClientCertificate {
  kDoesNotConnect,
  kIsSeenByTheService,  // which must check auth_context()->IsPeerAuthenticated()
};

// Returns plain-text credentials if `tls` has no certificate. `field` and errors: as in LoadTlsFiles. Logs when the
// chain expires.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const v1::TlsConfig& tls,
                                                                               const std::string& field,
                                                                               NoClientCertificate otherwise);

// Returns plain-text credentials if `tls` has no ca_file. Errors (NotFound, …) name the field of the file that cannot
// be read.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const v1::ClientTlsConfig& tls);

}  // namespace kinora

#endif  // KINORA_SERVER_NET_GRPC_CREDENTIALS_H_

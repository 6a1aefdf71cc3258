// The PEM files of a TlsConfig, read and checked by the rules of gRPC's OpenSSL. gRPC itself would report only that it
// could not listen, for example if the key belongs to another certificate. Used by --check-config and at startup.
#ifndef KINORA_SERVER_NET_TLS_FILES_H_
#define KINORA_SERVER_NET_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

struct TlsFiles {
  std::string certificate_chain, private_key;  // PEM; empty: plain text
  std::string client_ca;                       // PEM; empty: clients need no certificate
  absl::Time expiry = absl::InfiniteFuture();  // of the certificate in the chain that expires first
};

// InvalidArgument lists every invalid part of `field` (tls.certificate_file, tls.key_file, …) with the reason: the
// file cannot be read; it contains no PEM certificate or unencrypted key, or one that OpenSSL rejects (for example, the
// key is too short); the key does not match the first certificate; at `now`, a certificate of the chain or every CA
// certificate is not valid.
absl::StatusOr<TlsFiles> LoadTlsFiles(const v1::TlsConfig& tls, absl::Time now, const std::string& field = "tls");

}  // namespace kinora

#endif  // KINORA_SERVER_NET_TLS_FILES_H_

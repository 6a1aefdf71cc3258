// The PEM files of a TlsConfig, read and checked as gRPC's OpenSSL will take them: gRPC itself says of a key that
// belongs to another certificate only that it could not listen. --check-config and the start ask the same function.
#ifndef KINORA_SERVER_COMMON_TLS_FILES_H_
#define KINORA_SERVER_COMMON_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

struct TlsFiles {
  std::string certificate_chain, private_key;  // PEM; empty: plain text
  std::string client_ca;                       // PEM; empty: clients need no certificate
  absl::Time expiry = absl::InfiniteFuture();  // of the first of the chain to expire
};

// InvalidArgument with every part of `field` that is wrong (tls.certificate_file, tls.key_file, …) and why: the
// file cannot be read, holds no PEM certificate or unencrypted key, or one that OpenSSL refuses (a key too short, say);
// the key is not that of the first certificate; at `now` a certificate of the chain is not valid, or none of the CAs'.
absl::StatusOr<TlsFiles> LoadTlsFiles(const v1::TlsConfig& tls, absl::Time now, const std::string& field = "tls");

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_TLS_FILES_H_

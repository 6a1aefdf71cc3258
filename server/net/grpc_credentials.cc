#include "server/net/grpc_credentials.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/regular_file.h"
#include "server/net/tls_files.h"

namespace kinora {
namespace {

absl::Status ReadPem(const char* field, const std::string& path, std::string& pem) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<RegularFile> file = ReadRegularFile(path);
  if (!file.ok()) {
    return absl::Status(file.status().code(), absl::StrCat(field, ": ", std::string(file.status().message())));
  }
  pem = std::move(file->bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const v1::TlsConfig& tls,
                                                                               const std::string& field,
                                                                               NoClientCertificate otherwise) {
  KINORA_ASSIGN_OR_RETURN(TlsFiles files, LoadTlsFiles(tls, Clock::Real().Now(), field));
  if (files.certificate_chain.empty()) return grpc::InsecureServerCredentials();
  constexpr absl::Duration kSoon = absl::Hours(24 * 14);
  Log(files.expiry - Clock::Real().Now() < kSoon ? Severity::kWarning : Severity::kInfo, "tls_certificate",
      {{"field", field}, {"expires", absl::FormatTime(files.expiry, absl::UTCTimeZone())}});
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back(
      {.private_key = std::move(files.private_key), .cert_chain = std::move(files.certificate_chain)});
  if (!files.client_ca.empty()) {
    options.pem_root_certs = std::move(files.client_ca);
    options.client_certificate_request = otherwise == NoClientCertificate::kDoesNotConnect
                                             ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                             : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const v1::ClientTlsConfig& tls) {
  if (tls.ca_file().empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  KINORA_RETURN_IF_ERROR(ReadPem("tls.ca_file", tls.ca_file(), options.pem_root_certs));
  KINORA_RETURN_IF_ERROR(ReadPem("tls.certificate_file", tls.certificate_file(), options.pem_cert_chain));
  KINORA_RETURN_IF_ERROR(ReadPem("tls.key_file", tls.key_file(), options.pem_private_key));
  return grpc::SslCredentials(options);
}

}  // namespace kinora

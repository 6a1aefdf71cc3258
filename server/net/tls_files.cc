#include "server/net/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/regular_file.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

char g_no_password[] = "";  // without one, OpenSSL would ask at the terminal

// Returns why the last OpenSSL call failed, and clears its error queue.
std::string OpenSslError() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown error" : reason;
}

Bio Memory(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// Returns all certificates of a PEM text; InvalidArgument if there is none.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& path, const std::string& pem) {
  ERR_clear_error();
  const Bio bio = Memory(pem);
  std::vector<Certificate> certificates;
  while (X509* certificate = PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, g_no_password)) {
    certificates.emplace_back(certificate);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string why = OpenSslError();
  if (!at_end) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": certificate ", certificates.size() + 1, " in it is damaged (", why, ")"));
  }
  if (certificates.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": contains no PEM certificate"));
  return certificates;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm utc{};
  return ASN1_TIME_to_tm(time, &utc) == 1 ? absl::FromTM(utc, absl::UTCTimeZone()) : absl::InfinitePast();
}

absl::Time Expiry(const Certificate& certificate) { return ToTime(X509_get0_notAfter(certificate.get())); }

absl::Status CheckDates(const std::string& path, const Certificate& certificate, absl::Time now) {
  const absl::Time begin = ToTime(X509_get0_notBefore(certificate.get())), end = Expiry(certificate);
  if (begin <= now && now < end) return absl::OkStatus();
  char subject[256] = "";
  X509_NAME_oneline(X509_get_subject_name(certificate.get()), subject, sizeof(subject));
  return absl::InvalidArgumentError(absl::StrCat(path, ": the certificate of ", subject,
                                                 now < begin ? " is not valid before " : " has expired on ",
                                                 absl::FormatTime(now < begin ? begin : end, absl::UTCTimeZone())));
}

// Checks certificate and key as a server does when it begins to listen.
void CheckPair(const std::string& field, const v1::TlsConfig& tls, const TlsFiles& files,
               const std::vector<Certificate>& chain, FieldViolations& out) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  const std::string& certificate_file = tls.certificate_file();
  if (SSL_CTX_use_certificate(context.get(), chain.front().get()) != 1) {
    out.push_back(
        {field + ".certificate_file", absl::StrCat(certificate_file, ": rejected by OpenSSL: ", OpenSslError())});
    return;
  }
  const PrivateKey key(PEM_read_bio_PrivateKey(Memory(files.private_key).get(), nullptr, nullptr, g_no_password));
  if (key == nullptr) {
    out.push_back(
        {field + ".key_file",
         absl::StrCat(tls.key_file(), ": contains no PEM private key, or one with a password (", OpenSslError(), ")")});
  } else if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 || SSL_CTX_check_private_key(context.get()) != 1) {
    out.push_back({field + ".key_file", absl::StrCat(tls.key_file(), ": does not match the first certificate in ",
                                                     certificate_file, " (", OpenSslError(), ")")});
  }
}

// Reads and parses the file of a field. On an error, adds a violation and returns no certificates.
std::vector<Certificate> ReadCertificates(const std::string& field, const std::string& path, std::string& pem,
                                          FieldViolations& out) {
  const auto read = [&]() -> absl::StatusOr<std::vector<Certificate>> {
    KINORA_ASSIGN_OR_RETURN(RegularFile file, ReadRegularFile(path));
    pem = std::move(file.bytes);
    return ParseCertificates(path, pem);
  };
  absl::StatusOr<std::vector<Certificate>> certificates = read();
  if (certificates.ok()) return *std::move(certificates);
  out.push_back({field, std::string(certificates.status().message())});
  return {};
}

}  // namespace

absl::StatusOr<TlsFiles> LoadTlsFiles(const v1::TlsConfig& tls, absl::Time now, const std::string& field) {
  TlsFiles files;
  FieldViolations out;
  if (tls.certificate_file().empty()) return files;
  const auto chain =
      ReadCertificates(field + ".certificate_file", tls.certificate_file(), files.certificate_chain, out);
  for (const Certificate& certificate : chain) {
    files.expiry = std::min(files.expiry, Expiry(certificate));
    const absl::Status dates = CheckDates(tls.certificate_file(), certificate, now);
    if (!dates.ok()) out.push_back({field + ".certificate_file", std::string(dates.message())});
  }
  absl::StatusOr<RegularFile> key = ReadRegularFile(tls.key_file());
  if (!key.ok()) {
    out.push_back({field + ".key_file", std::string(key.status().message())});
  } else {
    files.private_key = std::move(key->bytes);
    if (!chain.empty()) CheckPair(field, tls, files, chain, out);
  }
  if (!tls.client_ca_file().empty()) {
    const auto authorities = ReadCertificates(field + ".client_ca_file", tls.client_ca_file(), files.client_ca, out);
    absl::Status dates;  // OK if one is valid: a bundle may keep an expired CA beside its successor
    for (const Certificate& authority : authorities) {
      dates = CheckDates(tls.client_ca_file(), authority, now);
      if (dates.ok()) break;
    }
    if (!dates.ok()) out.push_back({field + ".client_ca_file", std::string(dates.message())});
  }
  if (!out.empty()) return InvalidFields(out);
  return files;
}

}  // namespace kinora

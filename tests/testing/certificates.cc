#include "tests/testing/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "engine/base/check.h"

namespace kinora {
namespace {

std::string Text(BIO* bio) {
  char* data = nullptr;
  const int64_t size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void AddAlternativeNames(X509* certificate, const CertificateOptions& options) {
  const std::string value = "DNS:" + options.name + (options.address.empty() ? "" : ",IP:" + options.address);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, value.c_str());
  KINORA_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TestCertificate MakeCertificate(const CertificateOptions& options) {
  EVP_PKEY* key = options.rsa_bits > 0 ? EVP_RSA_gen(static_cast<unsigned>(options.rsa_bits)) : EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  KINORA_CHECK(key != nullptr && certificate != nullptr);
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(options.begin));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(options.end));
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(options.name.c_str()),
                             -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_set_pubkey(certificate, key);
  AddAlternativeNames(certificate, options);
  KINORA_CHECK(X509_sign(certificate, key, EVP_sha256()) != 0);

  BIO* certificate_text = BIO_new(BIO_s_mem());
  BIO* key_text = BIO_new(BIO_s_mem());
  KINORA_CHECK(PEM_write_bio_X509(certificate_text, certificate) == 1);
  const EVP_CIPHER* cipher = options.password.empty() ? nullptr : EVP_aes_128_cbc();
  KINORA_CHECK(PEM_write_bio_PKCS8PrivateKey(key_text, key, cipher, options.password.c_str(),
                                             static_cast<int>(options.password.size()), nullptr, nullptr) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {.certificate = Text(certificate_text), .key = Text(key_text)};
}

}  // namespace kinora

// Generates X.509 certificates for TLS tests.
#ifndef KINORA_TESTS_TESTING_CERTIFICATES_H_
#define KINORA_TESTS_TESTING_CERTIFICATES_H_

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kinora {

struct CertificateOptions {
  std::string name = "localhost";  // subject and DNS alternative name
  std::string address;             // IP alternative name; empty for none
  absl::Time begin = absl::Now() - absl::Hours(1), end = absl::Now() + absl::Hours(24);
  int rsa_bits = 0;      // 0: a P-256 key
  std::string password;  // of the key; empty for an unencrypted key
};

struct TestCertificate {
  std::string certificate, key;  // PEM
};

TestCertificate MakeCertificate(const CertificateOptions& options = {});  // self-signed

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_CERTIFICATES_H_

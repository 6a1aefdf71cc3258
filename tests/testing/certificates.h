// X.509 certificates made on the spot, for tests of TLS.
#ifndef KINORA_TESTS_TESTING_CERTIFICATES_H_
#define KINORA_TESTS_TESTING_CERTIFICATES_H_

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kinora {

struct CertificateOptions {
  std::string name = "localhost";  // subject and its alternative name
  std::string address;             // IP, the other alternative name; empty: none
  absl::Time begin = absl::Now() - absl::Hours(1), end = absl::Now() + absl::Hours(24);
  int rsa_bits = 0;      // 0: a P-256 key
  std::string password;  // of the key; empty: not encrypted
};

struct TestCertificate {
  std::string certificate, key;  // PEM
};

TestCertificate MakeCertificate(const CertificateOptions& options = {});  // self-signed

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_CERTIFICATES_H_

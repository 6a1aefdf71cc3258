#include "server/net/tls_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TlsFilesTest : public testing::Test {
 protected:
  // Writes `text` to a file and returns its path.
  std::string File(const std::string& name, const std::string& text) {
    WriteFile(directory_.File(name), text);
    return directory_.File(name);
  }
  absl::StatusOr<TlsFiles> Load(const std::string& certificate, const std::string& key, const std::string& ca = "") {
    v1::TlsConfig tls;
    tls.set_certificate_file(File("cert.pem", certificate));
    tls.set_key_file(File("key.pem", key));
    if (!ca.empty()) tls.set_client_ca_file(File("ca.pem", ca));
    return LoadTlsFiles(tls, absl::Now());
  }
  template <typename Matcher>
  static auto Refused(Matcher message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, message);
  }

  TemporaryDirectory directory_;
};

TEST_F(TlsFilesTest, APairThatBelongsTogetherIsReadWithItsExpiry) {
  const absl::Time end = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()) + 5000);
  const TestCertificate pair = MakeCertificate({.end = end}), other = MakeCertificate();
  KINORA_ASSERT_OK_AND_ASSIGN(const TlsFiles files,
                              Load(pair.certificate + other.certificate, pair.key, other.certificate));
  EXPECT_EQ(files.certificate_chain, pair.certificate + other.certificate);
  EXPECT_EQ(files.private_key, pair.key);
  EXPECT_EQ(files.client_ca, other.certificate);
  EXPECT_EQ(files.expiry, end);
  EXPECT_EQ(LoadTlsFiles({}, absl::Now())->certificate_chain, "");
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificateIsNamed) {
  const TestCertificate pair = MakeCertificate(), other = MakeCertificate(), rsa = MakeCertificate({.rsa_bits = 2048});
  for (const std::string& key : {other.key, rsa.key}) {
    EXPECT_THAT(Load(pair.certificate, key), Refused(AllOf(HasSubstr("tls.key_file: "), HasSubstr("key.pem"),
                                                           HasSubstr("cert.pem"), Not(HasSubstr("ca.pem")))));
  }
  // A chain in the wrong order.
  EXPECT_THAT(Load(other.certificate + pair.certificate, pair.key), Refused(HasSubstr("the first certificate")));
}

TEST_F(TlsFilesTest, WhatIsNoCertificateOrKeyIsNamedFieldByField) {
  const TestCertificate pair = MakeCertificate();
  EXPECT_THAT(Load("", pair.key), Refused(HasSubstr("tls.certificate_file: ")));
  EXPECT_THAT(Load(pair.key, pair.key), Refused(HasSubstr("no PEM certificate")));
  EXPECT_THAT(Load(pair.certificate, pair.certificate), Refused(HasSubstr("no PEM private key")));
  EXPECT_THAT(Load(pair.certificate, pair.key, "x"), Refused(HasSubstr("tls.client_ca_file: ")));
  EXPECT_THAT(Load("x", pair.key, "y"),
              Refused(AllOf(HasSubstr("tls.certificate_file: "), HasSubstr("tls.client_ca"))));
  EXPECT_THAT(Load(pair.certificate, MakeCertificate({.password = "secret"}).key), Refused(HasSubstr("password")));
  std::string damaged = pair.certificate;
  damaged[damaged.size() / 2] = '!';
  EXPECT_THAT(Load(pair.certificate + damaged, pair.key), Refused(HasSubstr("certificate 2 in it is damaged")));
  EXPECT_THAT(Load(pair.certificate, pair.key, damaged), Refused(HasSubstr("certificate 1 in it is damaged")));
}

TEST_F(TlsFilesTest, WhatOpenSslRefusesToServeIsRefusedBeforeThePortIsOpened) {
  const TestCertificate weak = MakeCertificate({.rsa_bits = 512});
  EXPECT_THAT(Load(weak.certificate, weak.key),
              Refused(AllOf(HasSubstr("tls.certificate_file: "), HasSubstr("too small"))));
}

TEST_F(TlsFilesTest, CertificatesOutOfTheirTimeAreRefused) {
  const absl::Time now = absl::Now();
  const TestCertificate pair = MakeCertificate();
  const TestCertificate old =
      MakeCertificate({.name = "old", .begin = now - absl::Hours(9), .end = now - absl::Hours(1)});
  const TestCertificate early = MakeCertificate({.name = "early", .begin = now + absl::Hours(1)});
  EXPECT_THAT(Load(old.certificate, old.key), Refused(AllOf(HasSubstr("CN=old"), HasSubstr("expired on"))));
  EXPECT_THAT(Load(early.certificate, early.key), Refused(AllOf(HasSubstr("CN=early"), HasSubstr("not valid before"))));
  EXPECT_THAT(Load(pair.certificate + old.certificate, pair.key), Refused(HasSubstr("CN=old")));
  EXPECT_THAT(Load(pair.certificate, pair.key, old.certificate), Refused(HasSubstr("tls.client_ca_file: ")));
  EXPECT_THAT(Load(pair.certificate, pair.key, old.certificate + pair.certificate), IsOk());
}

TEST_F(TlsFilesTest, OnlyRegularFilesOfABoundedSizeAreRead) {
  const TestCertificate pair = MakeCertificate();
  v1::TlsConfig tls;
  tls.set_certificate_file(File("cert.pem", pair.certificate));
  tls.set_key_file(directory_.File("fifo"));
  ASSERT_EQ(mkfifo(directory_.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(LoadTlsFiles(tls, absl::Now()), Refused(AllOf(HasSubstr("tls.key_file: "), HasSubstr("regular file"))));
  for (const char* path : {"/dev/zero", "/", "/nowhere"}) {
    tls.set_key_file(path);
    EXPECT_THAT(LoadTlsFiles(tls, absl::Now()), Refused(AllOf(HasSubstr("tls.key_file: "), HasSubstr(path))));
  }
  EXPECT_THAT(Load(pair.certificate + std::string(5 << 20, '\n'), pair.key), Refused(HasSubstr("4194304 bytes")));
}

}  // namespace
}  // namespace kinora

#include "server/worker/join_home.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/net/grpc_status.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// gRPC's other resolver, c-ares, leaks a few bytes for each name. Read when gRPC starts.
[[maybe_unused]] const int kNativeResolver = setenv("GRPC_DNS_RESOLVER", "native", 1);

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr char kHome[] = "the home";

// Passes an hour in each pause, so that one more try follows it, however slow the machine is.
class ClockWithoutPauses : public Clock {
 public:
  absl::Time Now() const override { return Clock::Steady().Now() + passed_; }
  bool AwaitUntil(absl::Mutex&, const absl::Condition&, absl::Time) override {
    passed_ += absl::Hours(1);
    return false;
  }

 private:
  absl::Duration passed_;
};

// A frontend at a port, which welcomes ranks, redirects them, or rejects them for a while.
class Frontend : public v1::WorkerControl::Service {
 public:
  explicit Frontend(const TestCertificate* certificate = nullptr, const std::string& host = "127.0.0.1") {
    auto credentials = grpc::InsecureServerCredentials();
    if (certificate != nullptr) {
      grpc::SslServerCredentialsOptions options;
      options.pem_key_cert_pairs.push_back({.private_key = certificate->key, .cert_chain = certificate->certificate});
      credentials = grpc::SslServerCredentials(options);
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort(host + ":0", credentials, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    KINORA_CHECK(server_ != nullptr);
  }

  std::string address(const std::string& host = "127.0.0.1") const { return absl::StrCat(host, ":", port_); }
  void Redirect(const std::string& to) { redirect_ = to; }
  void RejectOnce(absl::Status status) {
    rejection_ = std::move(status);
    rejections_ = 1;
  }
  int joins() const { return joins_; }

  grpc::Status Join(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::FrontendMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    ++joins_;
    if (rejections_-- > 0) return ToGrpcStatus(rejection_);
    v1::FrontendMessage answer;
    if (redirect_.empty()) {
      answer.mutable_welcome()->set_incarnation(kHome);
    } else {
      answer.mutable_welcome()->mutable_redirect()->set_address(redirect_);
    }
    stream->Write(answer);
    while (redirect_.empty() && stream->Read(&message)) continue;
    return grpc::Status::OK;
  }

 private:
  std::string redirect_;
  absl::Status rejection_;
  std::atomic<int> rejections_ = 0, joins_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(JoinHome, FollowsRedirectsToTheHomeOfItsGroup) {
  Frontend any, other, home;
  any.Redirect(other.address());
  other.Redirect(home.address());
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend joined, JoinHome({any.address()}, v1::Hello(), kPatience));
  EXPECT_EQ(joined.address, home.address());
  EXPECT_EQ(joined.client->welcome().incarnation(), kHome);
}

TEST(JoinHome, FrontendsThatRedirectInACircleAreLeft) {
  Frontend a, b;
  a.Redirect(b.address());
  b.Redirect(a.address());
  ClockWithoutPauses clock;
  EXPECT_THAT(JoinHome({a.address()}, v1::Hello(), kPatience, clock),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("after 2 redirects")));
  EXPECT_EQ(a.joins(), 2 * b.joins());
}

TEST(JoinHome, AHomeThatIsGoneIsAskedForAgain) {
  Frontend any, home;
  any.Redirect(home.address());
  home.RejectOnce(absl::UnavailableError("the frontend is stopping"));
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend joined, JoinHome({any.address()}, v1::Hello(), kPatience));
  EXPECT_EQ(joined.address, home.address());
  EXPECT_EQ(any.joins(), 2);
}

TEST(JoinHome, ARejectionForGoodEndsIt) {
  Frontend any, home;
  any.Redirect(home.address());
  home.RejectOnce(absl::FailedPreconditionError("world_size: the group has 2 processes"));
  EXPECT_THAT(JoinHome({any.address()}, v1::Hello(), kPatience),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("world_size")));
  EXPECT_EQ(any.joins(), 1);
}

TEST(JoinHome, OfSeveralFrontendsTheNextIsDialledIfOneIsAway) {
  Frontend home;
  KINORA_ASSERT_OK_AND_ASSIGN(
      const JoinedFrontend joined,
      JoinHome({absl::StrCat("unix:/nowhere/one.sock,", home.address())}, v1::Hello(), absl::Seconds(20)));
  EXPECT_EQ(joined.address, home.address());
}

class JoinHomeWithTls : public testing::Test {
 protected:
  JoinTarget Target(const std::string& address, const TestCertificate& authority) const {
    return {.address = address,
            .token = "",
            .credentials = grpc::SslCredentials(
                {.pem_root_certs = authority.certificate, .pem_private_key = "", .pem_cert_chain = ""})};
  }
  const TestCertificate shared_ = MakeCertificate({.name = "localhost"});
};

// As for pods, whose addresses no certificate has.
TEST_F(JoinHomeWithTls, AHomeAtAnIpAddressNeedsACertificateForTheNameThatWasDialled) {
  Frontend any(&shared_), home(&shared_);
  any.Redirect(home.address());
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend joined,
                              JoinHome(Target(any.address("localhost"), shared_), v1::Hello(), kPatience));
  EXPECT_EQ(joined.address, home.address());
}

TEST_F(JoinHomeWithTls, AHomeWithoutACertificateIsNotJoined) {
  Frontend any(&shared_), impostor;
  const TestCertificate stranger = MakeCertificate({.name = "localhost"});
  Frontend other(&stranger);
  for (Frontend* home : {&impostor, &other}) {
    any.Redirect(home->address());
    ClockWithoutPauses clock;
    EXPECT_THAT(JoinHome(Target(any.address("localhost"), shared_), v1::Hello(), kPatience, clock),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr(home->address() + ", or the TLS handshake failed")));
    EXPECT_EQ(home->joins(), 0);
  }
}

TEST_F(JoinHomeWithTls, FrontendsWithoutNamesHaveCertificatesForTheirAddresses) {
  const TestCertificate here = MakeCertificate({.address = "127.0.0.1"}),
                        there = MakeCertificate({.address = "127.0.0.2"});
  Frontend any(&here), home(&there, "127.0.0.2");
  any.Redirect(home.address("127.0.0.2"));
  JoinTarget target = Target(any.address(), here);
  target.credentials = grpc::SslCredentials(
      {.pem_root_certs = here.certificate + there.certificate, .pem_private_key = "", .pem_cert_chain = ""});
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend joined, JoinHome(target, v1::Hello(), kPatience));
  EXPECT_EQ(joined.address, home.address("127.0.0.2"));
}

TEST_F(JoinHomeWithTls, AHomeWithANameNeedsACertificateForThatName) {
  const TestCertificate elsewhere = MakeCertificate({.name = "elsewhere.example"});
  Frontend any(&shared_), home(&shared_);
  any.Redirect(home.address("localhost"));
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend joined,
                              JoinHome(Target(any.address("localhost"), shared_), v1::Hello(), kPatience));
  EXPECT_EQ(joined.address, home.address("localhost"));
  Frontend misnamed(&elsewhere);
  any.Redirect(misnamed.address("localhost"));
  JoinTarget both = Target(any.address("localhost"), shared_);
  both.credentials = grpc::SslCredentials(
      {.pem_root_certs = shared_.certificate + elsewhere.certificate, .pem_private_key = "", .pem_cert_chain = ""});
  ClockWithoutPauses clock;
  EXPECT_THAT(JoinHome(both, v1::Hello(), kPatience, clock),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("TLS handshake failed")));
  EXPECT_EQ(misnamed.joins(), 0);
}

}  // namespace
}  // namespace kinora

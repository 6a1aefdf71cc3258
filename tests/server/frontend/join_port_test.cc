// The port at which external workers join: who is accepted, and that it serves nothing else.
#include <gmock/gmock.h>

#include "server/common/build_version.h"
#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/certificates.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/join_call.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class JoinPort : public FrontendTest {
 protected:
  JoinPort() {
    config_.set_join_address("127.0.0.1:0");
    v1::GroupConfig& group = *config_.add_groups();
    group.set_id("far");
    group.set_outside(true);
  }
  std::string Write(const std::string& name, const std::string& text) {
    WriteFile(directory_.File(name), text);
    KINORA_CHECK_EQ(chmod(directory_.File(name).c_str(), 0600), 0);
    return directory_.File(name);
  }
  void AskForTokens() { config_.set_join_token_file(Write("join_tokens", "a token for workers\n")); }
  void AskForCertificates() {
    config_.mutable_join_tls()->set_certificate_file(Write("cert", own_.certificate));
    config_.mutable_join_tls()->set_key_file(Write("key", own_.key));
    config_.mutable_join_tls()->set_client_ca_file(Write("ca", client_.certificate));
  }
  Caller As(const std::string& token) const {
    return {.address = absl::StrCat("127.0.0.1:", frontend_->join_port()), .token = token};
  }
  // Trusts the frontend's certificate. `shown` is the client's certificate, or null for none.
  Caller As(const TestCertificate* shown) const {
    grpc::SslCredentialsOptions options{
        .pem_root_certs = own_.certificate, .pem_private_key = "", .pem_cert_chain = ""};
    if (shown != nullptr) {
      options.pem_cert_chain = shown->certificate;
      options.pem_private_key = shown->key;
    }
    return {.address = absl::StrCat("127.0.0.1:", frontend_->join_port()),
            .token = "",
            .credentials = grpc::SslCredentials(options)};
  }
  static v1::Hello Far() {
    v1::Hello hello;
    hello.set_group("far");
    hello.set_world_size(1);
    hello.set_protocol(ThisBuild().protocol);
    return hello;
  }

  const TestCertificate own_ = MakeCertificate({.address = "127.0.0.1"}),
                        client_ = MakeCertificate({.name = "a worker"});
};

TEST_F(JoinPort, LetsInWhoShowsAToken) {
  AskForTokens();
  Start();
  EXPECT_THAT(SayHello(As(""), Far()), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("authorization: send")));
  EXPECT_THAT(SayHello(As("another token for workers"), Far()),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("not valid")));
  EXPECT_EQ(Metrics()["kinora_joins_unauthenticated_total"], 2);
  EXPECT_THAT(SayHello(As("a token for workers"), Far()), IsOk());
  EXPECT_EQ(Metrics()["kinora_joins_unauthenticated_total"], 2);
}

TEST_F(JoinPort, LetsInWhoShowsACertificateOfItsAuthority) {
  AskForCertificates();
  Start();
  EXPECT_THAT(SayHello(As(nullptr), Far()),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("certificate: must be signed")));
  EXPECT_EQ(Metrics()["kinora_joins_unauthenticated_total"], 1);
  const TestCertificate stranger = MakeCertificate({.name = "a worker"});
  EXPECT_THAT(SayHello(As(&stranger), Far()), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(SayHello(As(""), Far()), StatusIs(absl::StatusCode::kUnavailable)) << "plain text";
  EXPECT_THAT(SayHello(As(&client_), Far()), IsOk());
}

TEST_F(JoinPort, WantsBothWhereBothAreConfigured) {
  AskForTokens();
  AskForCertificates();
  Start();
  EXPECT_THAT(SayHello(As(&client_), Far()), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("authorization")));
  Caller both = As(&client_);
  both.token = "a token for workers";
  EXPECT_THAT(SayHello(both, Far()), IsOk());
}

TEST_F(JoinPort, ACallWithoutAHelloEndsAfterTenSeconds) {
  FakeClock clock;
  clock_ = &clock;
  AskForTokens();
  Start();
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", frontend_->join_port()), grpc::InsecureChannelCredentials());
  const auto stub = v1::WorkerControl::NewStub(channel);
  const auto begin = [&stub](grpc::ClientContext& context) {
    context.AddMetadata("authorization", "Bearer a token for workers");
    auto stream = stub->Join(&context);
    stream->WaitForInitialMetadata();
    return stream;
  };
  grpc::ClientContext silent_context, rank_context;
  const auto silent = begin(silent_context);
  const auto rank = begin(rank_context);
  v1::WorkerMessage hello;
  *hello.mutable_hello() = Far();
  v1::FrontendMessage answer;
  ASSERT_TRUE(rank->Write(hello) && rank->Read(&answer) && answer.has_welcome());
  clock.Advance(absl::Seconds(10));
  EXPECT_FALSE(silent->Read(&answer));
  EXPECT_THAT(FromGrpcStatus(silent->Finish()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no Hello message arrived within 10s")));
  rank_context.TryCancel();
  rank->Finish();
  frontend_.reset();  // before the clock
}

TEST_F(JoinPort, ServesWorkersAloneAndNoOtherPortDoes) {
  AskForTokens();
  Start();
  EXPECT_THAT(SayHello({.address = absl::StrCat("127.0.0.1:", frontend_->port())}, Far()),
              StatusIs(absl::StatusCode::kUnimplemented));
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", frontend_->join_port()), grpc::InsecureChannelCredentials());
  v1::Video video;
  token_ = "a token for workers";
  EXPECT_EQ(v1::VideoGeneration::NewStub(channel)->GetVideo(Context().get(), {}, &video).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace kinora

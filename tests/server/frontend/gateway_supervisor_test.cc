// The supervisor with a shell script in the place of kinora-gateway; tests/e2e/web_address_test.cc has the program.
#include "server/frontend/gateway_supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/config/config.h"
#include "tests/testing/certificates.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class GatewaySupervisorTest : public testing::Test {
 protected:
  GatewaySupervisorTest() {
    config_.set_state_directory(directory_.path());
    config_.set_gateway_binary(directory_.File("gateway"));
    config_.set_web_address("127.0.0.1:0");
    UseScript("exit 1");
  }

  void UseScript(const std::string& script) {
    WriteFile(directory_.File("gateway"), absl::StrCat("#!/bin/sh\n", script, "\n"));
    ASSERT_EQ(chmod(directory_.File("gateway").c_str(), 0700), 0);
  }
  void Start() {
    KINORA_ASSERT_OK_AND_ASSIGN(supervisor_, GatewaySupervisor::Bind(config_, clock_));
    ASSERT_NE(supervisor_, nullptr);
    supervisor_->Start();
  }
  // Returns the arguments of one process.
  std::vector<std::string> Arguments() {
    const std::string path = directory_.File("arguments");
    UseScript(absl::StrCat("for a; do echo \"$a\"; done > ", path, ".new; mv ", path, ".new ", path));
    Start();
    while (!std::filesystem::exists(path)) std::this_thread::yield();
    supervisor_.reset();
    std::vector<std::string> arguments = absl::StrSplit(ReadFile(path), '\n', absl::SkipEmpty());
    std::filesystem::remove(path);
    return arguments;
  }
  std::string Page() {
    auto bound = GatewaySupervisor::Bind(config_, clock_);
    return bound.ok() ? (*bound)->page() : std::string(bound.status().message());
  }
  void UseTls() {
    config_.mutable_tls()->set_certificate_file("c.pem");
    config_.mutable_tls()->set_key_file("k.pem");
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  v1::FrontendConfig config_ = DefaultFrontendConfig();
  std::unique_ptr<GatewaySupervisor> supervisor_;
};

TEST_F(GatewaySupervisorTest, TheProgramIsToldWhereToListenAndWhomToCall) {
  config_.set_max_input_bytes(4096);
  config_.set_log_format("json");
  EXPECT_THAT(Arguments(),
              testing::IsSupersetOf({absl::StrCat("--frontend=unix:", directory_.File("gateway.sock")),
                                     std::string("--address=127.0.0.1:0"), std::string("--listen-fd=5"),
                                     std::string("--lifeline-fd=3"), std::string("--max-upload-bytes=4096"),
                                     std::string("--log-format=json")}));
}

TEST_F(GatewaySupervisorTest, ANameInTheAddressIsAHostOfThePage) {
  EXPECT_THAT(Arguments(), Not(Contains(HasSubstr("--host"))));
  config_.set_web_address("localhost:0");
  EXPECT_THAT(Arguments(), Contains("--host=localhost"));
  config_.set_web_address(absl::StrCat("unix:", directory_.File("page.sock")));
  EXPECT_THAT(Arguments(), Not(Contains(HasSubstr("--host"))));
}

TEST_F(GatewaySupervisorTest, ServesTlsUnlessItsAddressIsLoopback) {
  UseTls();
  EXPECT_THAT(Arguments(), Not(Contains(HasSubstr("--tls"))));
  EXPECT_THAT(Page(), testing::MatchesRegex("http://127.0.0.1:[0-9]+/"));
  config_.set_token_file("tokens");
  config_.set_web_address("0.0.0.0:0");
  EXPECT_THAT(Arguments(), testing::IsSupersetOf({"--tls-certificate-file=c.pem", "--tls-key-file=k.pem"}));
  EXPECT_THAT(Page(), testing::MatchesRegex("https://0.0.0.0:[0-9]+/"));
}

// Otherwise any user of the machine could do without the certificate that the API asks for.
TEST_F(GatewaySupervisorTest, AsksForClientCertificatesOnLoopbackTooIfTheApiDoes) {
  UseTls();
  config_.mutable_tls()->set_client_ca_file("ca.pem");
  EXPECT_THAT(Arguments(), testing::IsSupersetOf({"--tls-certificate-file=c.pem", "--tls-client-ca-file=ca.pem"}));
}

TEST_F(GatewaySupervisorTest, AnAddressThatWasSetMustBeFree) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto taken, ListeningSockets::Bind("a", "127.0.0.1:0", true));
  config_.set_web_address(absl::StrCat("127.0.0.1:", taken.port()));
  EXPECT_THAT(
      GatewaySupervisor::Bind(config_, clock_).status(),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(absl::StrCat("web_address: 127.0.0.1:", taken.port()))));
  config_.set_web_address("0.0.0.0:0");  // without TLS and tokens
  EXPECT_THAT(GatewaySupervisor::Bind(config_, clock_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("web_address: ")));
}

TEST_F(GatewaySupervisorTest, WithoutTheProgramOnlyAnAddressThatWasSetIsAnError) {
  config_.set_gateway_binary("/nowhere");
  EXPECT_THAT(GatewaySupervisor::Bind(config_, clock_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gateway_binary: cannot run /nowhere")));
  EXPECT_THAT(CheckGatewayBinary(config_), StatusIs(absl::StatusCode::kInvalidArgument));
  config_.clear_web_address();
  config_.mutable_worker()->add_model("m");  // the default address
  EXPECT_THAT(CheckGatewayBinary(config_), IsOk());
  EXPECT_THAT(GatewaySupervisor::Bind(config_, clock_), IsOkAndHolds(testing::IsNull()));
}

TEST_F(GatewaySupervisorTest, StartsAProcessAgainAfterPausesThatGrow) {
  const std::string count = directory_.File("count");
  UseScript(absl::StrCat("echo >> ", count));
  Start();
  for (int i = 0; i < 3; ++i) {
    clock_.AwaitWaiters(1);
    EXPECT_EQ(ReadFile(count), std::string(i + 1, '\n'));
    clock_.Advance(absl::Milliseconds(500 << i) - absl::Milliseconds(1));
    clock_.AwaitWaiters(1);
    EXPECT_EQ(ReadFile(count), std::string(i + 1, '\n'));
    clock_.Advance(absl::Milliseconds(1));
  }
  clock_.AwaitWaiters(1);
  EXPECT_EQ(ReadFile(count), std::string(4, '\n'));
}

TEST_F(GatewaySupervisorTest, StopsAProcessThatRunsAndOneThatPauses) {
  UseScript(absl::StrCat("trap 'echo > ", directory_.File("asked"), "; exit' TERM; echo > ", directory_.File("runs"),
                         "; while :; do :; done"));
  Start();
  while (!std::filesystem::exists(directory_.File("runs"))) std::this_thread::yield();
  supervisor_->Stop();
  EXPECT_TRUE(std::filesystem::exists(directory_.File("asked")));
  UseScript("exit 1");
  Start();
  clock_.AwaitWaiters(1);
  supervisor_->Stop();
}

}  // namespace
}  // namespace kinora

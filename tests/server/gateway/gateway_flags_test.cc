#include "server/gateway/gateway_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kVariables[] = {"KINORA_SERVER", "KINORA_TLS_CA", "TMPDIR"};

class GatewayFlagsTest : public testing::Test {
 protected:
  GatewayFlagsTest() {
    for (const char* name : kVariables) unsetenv(name);
  }
  ~GatewayFlagsTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  static absl::StatusOr<GatewayFlags> Parse(const std::vector<std::string>& arguments) {
    return ParseGatewayFlags(arguments);
  }
};

TEST_F(GatewayFlagsTest, DefaultsReachAFrontendOnThisMachineAndServeItAlone) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GatewayFlags flags, Parse({}));
  EXPECT_EQ(flags.address, "127.0.0.1:8472");
  EXPECT_THAT(flags.frontends, ElementsAre("127.0.0.1:8470"));
  EXPECT_FALSE(flags.frontend_tls || flags.insecure || flags.json_log);
  EXPECT_EQ(flags.scratch_folder, "/tmp");
}

TEST_F(GatewayFlagsTest, EveryFlagIsRead) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GatewayFlags flags, Parse({"--address=unix:/run/g.sock",
                                                               "--frontend",
                                                               "a:1",
                                                               "--frontend=b",
                                                               "--frontend-tls-ca=ca.pem",
                                                               "--host=clips.example",
                                                               "--host=other.example",
                                                               "--tls-certificate-file=c.pem",
                                                               "--tls-key-file=k.pem",
                                                               "--tls-client-ca-file=cc.pem",
                                                               "--insecure",
                                                               "--scratch-directory=/var/tmp",
                                                               "--max-upload-bytes=2MiB",
                                                               "--max-scratch-bytes=3MiB",
                                                               "--max-body-memory-bytes=4MiB",
                                                               "--max-connections=5",
                                                               "--max-connections-per-client=6",
                                                               "--max-requests-per-second=0.5",
                                                               "--timeout=7s",
                                                               "--drain-grace=0",
                                                               "--threads=8",
                                                               "--log-format=json"}));
  EXPECT_EQ(flags.address, "unix:/run/g.sock");
  EXPECT_THAT(flags.frontends, ElementsAre("a:1", "b"));
  EXPECT_TRUE(flags.frontend_tls);
  EXPECT_EQ(flags.frontend_tls_ca, "ca.pem");
  EXPECT_THAT(flags.hosts, ElementsAre("clips.example", "other.example"));
  EXPECT_EQ(flags.tls.certificate_file(), "c.pem");
  EXPECT_EQ(flags.tls.key_file(), "k.pem");
  EXPECT_EQ(flags.tls.client_ca_file(), "cc.pem");
  EXPECT_TRUE(flags.insecure);
  EXPECT_EQ(flags.scratch_folder, "/var/tmp");
  EXPECT_EQ(flags.max_upload_bytes, 2 << 20);
  EXPECT_EQ(flags.max_scratch_bytes, 3 << 20);
  EXPECT_EQ(flags.max_body_memory_bytes, 4 << 20);
  EXPECT_EQ(flags.max_connections, 5);
  EXPECT_EQ(flags.max_connections_per_client, 6);
  EXPECT_EQ(flags.max_requests_per_second, 0.5);
  EXPECT_EQ(flags.timeout, absl::Seconds(7));
  EXPECT_EQ(flags.drain_grace, absl::ZeroDuration());
  EXPECT_EQ(flags.threads, 8);
  EXPECT_TRUE(flags.json_log);
}

TEST_F(GatewayFlagsTest, EveryErrorNamesItsFlag) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--nonsense"}, "nonsense"},
      {{"--addres=x"}, "--address"},  // the nearest
      {{"--address"}, "address"},
      {{"--insecure=yes"}, "insecure"},
      {{"operand"}, "operand: kinora-gateway takes only flags"},
      {{"--max-upload-bytes=0"}, "max-upload-bytes"},
      {{"--max-upload-bytes=big"}, "max-upload-bytes"},
      {{"--max-scratch-bytes=-1"}, "max-scratch-bytes"},
      {{"--max-body-memory-bytes=1 parsec"}, "max-body-memory-bytes"},
      {{"--max-connections=0"}, "max-connections"},
      {{"--max-connections=x"}, "max-connections"},
      {{"--max-connections=99999999999"}, "max-connections"},
      {{"--max-connections-per-client=0"}, "max-connections-per-client"},
      {{"--max-requests-per-second=-1"}, "max-requests-per-second"},
      {{"--max-requests-per-second=nan"}, "max-requests-per-second"},
      {{"--max-requests-per-second=inf"}, "max-requests-per-second"},
      {{"--threads=0"}, "threads"},
      {{"--threads=1.5"}, "threads"},
      {{"--timeout=soon"}, "timeout"},
      {{"--timeout=0"}, "timeout"},
      {{"--timeout=-1s"}, "timeout"},
      {{"--drain-grace=x"}, "drain-grace"},
      {{"--log-format=xml"}, "log-format"},
      {{"--tls-certificate-file=c.pem"}, "--tls-certificate-file and --tls-key-file"},
      {{"--tls-key-file=k.pem"}, "--tls-certificate-file and --tls-key-file"},
      {{"--tls-client-ca-file=ca.pem"}, "--tls-client-ca-file: needs --tls-certificate-file"},
  };
  for (const auto& [arguments, named] : wrong) {
    EXPECT_THAT(Parse(arguments), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(named))) << arguments[0];
  }
}

TEST_F(GatewayFlagsTest, HelpAndVersionNeedNothingElseToBeRight) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GatewayFlags help, Parse({"--help", "--threads=0"}));
  EXPECT_TRUE(help.help);
  KINORA_ASSERT_OK_AND_ASSIGN(const GatewayFlags version, Parse({"--version", "operand"}));
  EXPECT_TRUE(version.version);
}

TEST_F(GatewayFlagsTest, VariablesOfTheClientHoldUnlessAFlagIsGiven) {
  setenv("KINORA_SERVER", "clips:1", 1);
  setenv("KINORA_TLS_CA", "of-the-client.pem", 1);
  setenv("TMPDIR", "/scratch", 1);
  KINORA_ASSERT_OK_AND_ASSIGN(GatewayFlags flags, Parse({}));
  EXPECT_THAT(flags.frontends, ElementsAre("clips:1"));
  EXPECT_EQ(flags.frontend_tls_ca, "of-the-client.pem");
  EXPECT_FALSE(flags.frontend_tls) << "a Unix socket or http:// still works without TLS";
  EXPECT_EQ(flags.scratch_folder, "/scratch");
  KINORA_ASSERT_OK_AND_ASSIGN(flags, Parse({"--frontend=a", "--frontend-tls-ca=b.pem", "--scratch-directory=c"}));
  EXPECT_THAT(flags.frontends, ElementsAre("a"));
  EXPECT_EQ(flags.frontend_tls_ca, "b.pem");
  EXPECT_EQ(flags.scratch_folder, "c");
  setenv("KINORA_SERVER", "", 1);
  setenv("TMPDIR", "", 1);
  KINORA_ASSERT_OK_AND_ASSIGN(flags, Parse({}));
  EXPECT_THAT(flags.frontends, ElementsAre("127.0.0.1:8470"));
  EXPECT_EQ(flags.scratch_folder, "/tmp");
}

}  // namespace
}  // namespace kinora

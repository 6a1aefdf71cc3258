#include "server/net/server_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ServerAddress, IsAsPeopleWriteIt) {
  const std::pair<const char*, const char*> addresses[] = {
      {"localhost", "localhost:8470"},
      {"localhost:", "localhost:8470"},
      {"gpu7.example:9000", "gpu7.example:9000"},
      {":9000", "127.0.0.1:9000"},
      {"10.0.0.7", "10.0.0.7:8470"},
      {"::1", "[::1]:8470"},
      {"[::1]", "[::1]:8470"},
      {"[::1]:9000", "[::1]:9000"},
      {"http://localhost", "localhost:8470"},
      {"http://localhost:8470/", "localhost:8470"},
      {"https://gpu7.example", "gpu7.example:8470"},
      {"unix:/run/kinora.sock", "unix:/run/kinora.sock"},
      {"dns:///localhost:8470", "dns:///localhost:8470"},
  };
  for (const auto& [text, target] : addresses) {
    const auto address = ParseServerAddress(text, 8470);
    ASSERT_THAT(address, IsOk()) << text;
    EXPECT_EQ(address->target, target) << text;
    EXPECT_EQ(address->tls, std::string(text).find("https") == 0) << text;
    EXPECT_EQ(address->plain, std::string(text).find("http:") == 0 || std::string(text).find("unix") == 0) << text;
  }
}

TEST(ServerAddress, WhatIsWrongIsSaid) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "is empty"},
      {"http://", "is empty"},
      {"unix:", "unix:PATH"},
      {"localhost:http", "not a port"},
      {"localhost:99999", "not a port"},
      {"localhost:0", "not a port"},
      {"localhost/metrics", "no path"},
      {"ftp://localhost", "http://"},
  };
  for (const auto& [text, why] : wrong) {
    EXPECT_THAT(ParseServerAddress(text, 8470), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why))) << text;
  }
  EXPECT_THAT(ParseServerAddress("localhost", 0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("port")));
}

// Error texts of gRPC 1.51.
TEST(ExplainUnreachable, NamesTheAddressAndTheLikelyMistake) {
  const std::string all = "failed to connect to all addresses; last error: ";
  EXPECT_THAT(ExplainUnreachable(all + "INTERNAL: ipv4:127.0.0.1:8480: Trying to connect an http1.x server"),
              AllOf(HasSubstr("127.0.0.1:8480 speaks HTTP/1"), HasSubstr("metrics"), HasSubstr("8470")));
  EXPECT_EQ(ExplainUnreachable(all + "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused"),
            "127.0.0.1:1: nothing listens on this address; is kinora-frontend running?");
  EXPECT_THAT(ExplainUnreachable(all + "UNKNOWN: ipv6:%5B::1%5D:8470: Ssl handshake failed: SSL_ERROR_SSL: "
                                       "error:0A00010B:SSL routines::wrong version number"),
              HasSubstr("[::1]:8470 does not use TLS"));
  for (const char* closed : {"Socket closed", "recvmsg:Connection reset by peer"}) {
    EXPECT_THAT(ExplainUnreachable(absl::StrCat(all, "UNKNOWN: ipv4:127.0.0.1:8470: ", closed)),
                AllOf(HasSubstr("127.0.0.1:8470 accepts connections and closes them"), HasSubstr("--tls-ca FILE")));
  }
  EXPECT_EQ(ExplainUnreachable("Socket closed"), "Socket closed");  // for a call that a server had begun to answer
  EXPECT_EQ(ExplainUnreachable("DNS resolution failed for nohost.invalid:8470: C-ares status is not ARES_SUCCESS "
                               "qtype=AAAA name=nohost.invalid is_balancer=0: Domain name not found"),
            "nohost.invalid:8470: host not found");
  EXPECT_EQ(ExplainUnreachable(all + "UNKNOWN: ipv4:10.0.0.1:8470: No route to host"),
            "10.0.0.1:8470: No route to host");
  EXPECT_TRUE(IsMistakenAddress(all + "INTERNAL: ipv4:127.0.0.1:8480: Trying to connect an http1.x server"));
  EXPECT_FALSE(
      IsMistakenAddress(all + "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused"));
  EXPECT_EQ(ExplainUnreachable("the frontend is draining: try later: a: b"),
            "the frontend is draining: try later: a: b");
}

}  // namespace
}  // namespace kinora

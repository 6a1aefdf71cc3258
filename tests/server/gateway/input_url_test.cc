#include "server/gateway/input_url.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::vector<AllowedHost> Hosts(const std::vector<std::string>& texts) {
  std::vector<AllowedHost> hosts;
  for (const std::string& text : texts) {
    const absl::StatusOr<AllowedHost> host = ParseAllowedHost(text);
    EXPECT_THAT(host, IsOk()) << text;
    hosts.push_back(host.value_or(AllowedHost()));
  }
  return hosts;
}

TEST(InputUrlTest, ReadsAllowedHosts) {
  const std::vector<AllowedHost> hosts = Hosts({"Media.Example", "*.media.example:8443", "10.0.0.5", "[FD00::5]:9000"});
  EXPECT_EQ(hosts[0].name, "media.example");
  EXPECT_EQ(hosts[0].port, 443);
  EXPECT_FALSE(hosts[0].literal || hosts[0].subdomains);
  EXPECT_TRUE(hosts[1].subdomains);
  EXPECT_EQ(hosts[1].port, 8443);
  EXPECT_TRUE(hosts[2].literal && hosts[3].literal);
  EXPECT_EQ(hosts[3].name, "[fd00::5]");
  for (const char* text : {"",
                           "*",
                           "*.",
                           "*.10.0.0.5",
                           "https://media.example",
                           "media.example/a",
                           "media.example:",
                           "media.example:0",
                           "media.example:65536",
                           "media.example:+1",
                           "a..b",
                           ".a",
                           "a.",
                           "[::1",
                           "::1",
                           "[x]",
                           "a@b",
                           "a b",
                           "*a.example",
                           "a.*.example",
                           "me\xc3\xa9.example"}) {
    EXPECT_THAT(ParseAllowedHost(text), StatusIs(kInvalid, HasSubstr("must be HOST"))) << text;
  }
}

TEST(InputUrlTest, AllowsOnlyTheNamedHostsAndPorts) {
  const std::vector<AllowedHost> hosts = Hosts({"media.example", "*.cdn.example", "127.0.0.1:9443", "[::1]"});
  for (const char* url : {"https://media.example/a.png", "HTTPS://MEDIA.example:443/a?sig=a..b@c&d=%2e",
                          "https://media.example", "https://media.example?a", "https://a.cdn.example/@user/a",
                          "https://a.b.cdn.example/..", "https://127.0.0.1:9443/a", "https://[::1]/a"}) {
    EXPECT_THAT(CheckInputUrl(url, hosts), IsOk()) << url;
  }
  for (const char* url :
       {"https://evil.example/", "https://media.example.evil.com/", "https://xmedia.example/", "https://cdn.example/",
        "https://evilcdn.example/", "https://media.example:8443/", "https://127.0.0.1/", "https://127.0.0.2:9443/",
        "https://0x7f000001:9443/", "https://127.1:9443/", "https://2130706433:9443/", "https://[0::1]/"}) {
    EXPECT_THAT(CheckInputUrl(url, hosts), StatusIs(kInvalid, HasSubstr("--input-url-host"))) << url;
  }
  for (const char* url : {"http://media.example/a", "ftp://media.example/a", "https:/media.example/a",
                          "https:media.example", "file:///a"}) {
    EXPECT_THAT(CheckInputUrl(url, hosts), StatusIs(kInvalid, HasSubstr("must be an https:// URL"))) << url;
  }
}

// Another parser may take the host from another part of these.
TEST(InputUrlTest, RejectsUrlsThatAreReadInTwoWays) {
  const std::vector<AllowedHost> hosts = Hosts({"media.example"});
  for (const std::string url :
       {"https://media.example@evil.com/", "https://evil.com@media.example/", "https://media.example:443@evil.com/",
        "https://media.example\\@evil.com/", "https://evil.com\\.media.example/", "https://media.example#@evil.com/",
        "https://media.example/a#b", "https://media.example /", "https://media.example/a b", "https:///media.example/",
        "https://", "https://media.example:/", "https://media.example:443x/", "https://media.example./",
        "https://media%2eexample/", "https://media.example\t/", "https://media.example/\r\nHost:x",
        "https://[media.example]/", "https://m\xc3\xa9/"}) {
    EXPECT_THAT(CheckInputUrl(url, hosts), StatusIs(kInvalid, HasSubstr("https://HOST[:PORT]/PATH"))) << url;
  }
  EXPECT_THAT(CheckInputUrl("https://media.example/" + std::string(9000, 'a'), hosts),
              StatusIs(kInvalid, HasSubstr("8192")));
}

}  // namespace
}  // namespace kinora

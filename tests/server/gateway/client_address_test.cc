#include "server/gateway/client_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

SocketAddress Peer(const std::string& host) {
  const auto resolved = ResolveListenAddress(absl::StrCat(host, ":1"));
  KINORA_CHECK(resolved.ok()) << resolved.status();
  return resolved->front();
}

// The client of a request from `peer` with these X-Forwarded-For, where 10.0.0.0/8 and 2001:db8:ff::/48 are proxies.
std::string Client(const std::string& peer, const std::vector<std::string>& forwarded) {
  const auto proxies = TrustedProxies::Parse({"10.0.0.0/8", "2001:db8:ff::/48", "192.0.2.7"});
  KINORA_CHECK(proxies.ok()) << proxies.status();
  std::vector<HttpField> fields = {{"Host", "a"}};
  for (const std::string& value : forwarded) fields.push_back({"X-Forwarded-For", value});
  fields.push_back({"Accept", "*/*"});
  return proxies->ClientOf(Peer(peer), fields);
}

TEST(ClientAddress, IsTheSameForTheAddressesOfAClient) {
  EXPECT_EQ(ClientAddress(Peer("10.1.2.3")), "10.1.2.3");
  EXPECT_EQ(ClientAddress(Peer("[2001:db8:1:2:3:4:5:6]")), "[2001:db8:1:2::]");
  EXPECT_EQ(ClientAddress(Peer("[::ffff:10.1.2.3]")), "10.1.2.3");
  EXPECT_EQ(ClientAddress(Peer("[::1]")), "[::1]");
}

TEST(TrustedProxies, TheClientIsTheRightmostAddressThatIsNoProxys) {
  EXPECT_EQ(Client("10.0.0.1", {"198.51.100.1"}), "198.51.100.1");
  EXPECT_EQ(Client("10.0.0.1", {"198.51.100.1, 10.2.3.4"}), "198.51.100.1");
  EXPECT_EQ(Client("10.0.0.1", {"198.51.100.1", "192.0.2.7,10.2.3.4"}), "198.51.100.1");
  EXPECT_EQ(Client("10.0.0.1", {"198.51.100.1:4711"}), "198.51.100.1");
  EXPECT_EQ(Client("10.0.0.1", {"[2001:db8:1:2:3::4]:4711, [2001:db8:ff::1]"}), "[2001:db8:1:2::]");
  EXPECT_EQ(Client("[2001:db8:ff::1]", {"2001:db8:1:2:3::4"}), "[2001:db8:1:2::]");
  EXPECT_EQ(Client("[::ffff:10.0.0.1]", {"::ffff:198.51.100.1"}), "198.51.100.1");
}

TEST(TrustedProxies, WhatAClientWroteItselfHasNoEffect) {
  EXPECT_EQ(Client("198.51.100.1", {"203.0.113.1"}), "198.51.100.1");                   // not through a proxy
  EXPECT_EQ(Client("192.0.2.8", {"203.0.113.1"}), "192.0.2.8");                         // beside one
  EXPECT_EQ(Client("10.0.0.1", {"203.0.113.1, 198.51.100.1"}), "198.51.100.1");         // before what the proxy added
  EXPECT_EQ(Client("10.0.0.1", {"203.0.113.1", "198.51.100.1"}), "198.51.100.1");       // in a field of its own
  EXPECT_EQ(Client("10.0.0.1", {"10.9.9.9, 198.51.100.1, 10.2.3.4"}), "198.51.100.1");  // as if from a proxy
}

TEST(TrustedProxies, WhereThereIsNoAddressTheClientIsTheLastProxy) {
  EXPECT_EQ(Client("10.0.0.1", {}), "10.0.0.1");
  EXPECT_EQ(Client("10.0.0.1", {"10.0.0.2, 10.0.0.3"}), "10.0.0.2");
  for (const char* no_address : {"",
                                 ",",
                                 "unknown",
                                 "198.51.100.1,",
                                 "198.51.100",
                                 "198.51.100.1 203.0.113.1",
                                 "198.51.100.1/8",
                                 "::1::",
                                 "[198.51.100.1",
                                 "[",
                                 "]",
                                 ":",
                                 "[]:1",
                                 "0x0a000001",
                                 "010.0.0.1",
                                 "fe80::1%eth0",
                                 "\"198.51.100.1\"",
                                 "for=198.51.100.1",
                                 "198.51.100.1;203.0.113.1",
                                 "198.51.100.1:",
                                 "198.51.100.1:x",
                                 "[::1]x",
                                 "::1:99999"}) {
    EXPECT_EQ(Client("10.0.0.1", {"198.51.100.9", no_address}), "10.0.0.1") << no_address;
    EXPECT_EQ(Client("10.0.0.1", {absl::StrCat("198.51.100.9, ", no_address, ", 10.0.0.2")}), "10.0.0.2") << no_address;
  }
  std::string many;
  for (int i = 0; i < 10'000; ++i) absl::StrAppend(&many, "10.0.0.2,");
  EXPECT_EQ(Client("10.0.0.1", {many + "10.0.0.3"}), "10.0.0.2");
}

TEST(TrustedProxies, WithoutAnyTheFieldIsIgnored) {
  KINORA_ASSERT_OK_AND_ASSIGN(const TrustedProxies none, TrustedProxies::Parse({}));
  EXPECT_EQ(none.ClientOf(Peer("127.0.0.1"), {{"X-Forwarded-For", "198.51.100.1"}}), "127.0.0.1");
  KINORA_ASSERT_OK_AND_ASSIGN(const TrustedProxies all, TrustedProxies::Parse({"0.0.0.0/0"}));
  EXPECT_TRUE(all.Trusts(Peer("203.0.113.1")));
  EXPECT_FALSE(all.Trusts(Peer("[2001:db8::1]")));
  EXPECT_FALSE(all.Trusts(*ResolveListenAddress("unix:/x")->begin()));
}

TEST(TrustedProxies, ARangeEndsAtItsBits) {
  KINORA_ASSERT_OK_AND_ASSIGN(const TrustedProxies some, TrustedProxies::Parse({"192.168.128.0/18", "2001:db8::/33"}));
  EXPECT_TRUE(some.Trusts(Peer("192.168.128.0")));
  EXPECT_TRUE(some.Trusts(Peer("192.168.191.255")));
  EXPECT_FALSE(some.Trusts(Peer("192.168.192.0")));
  EXPECT_FALSE(some.Trusts(Peer("192.168.127.255")));
  EXPECT_TRUE(some.Trusts(Peer("[2001:db8:7fff::1]")));
  EXPECT_FALSE(some.Trusts(Peer("[2001:db8:8000::1]")));
}

TEST(TrustedProxies, WhatIsNeitherAnAddressNorARangeIsQuoted) {
  for (const char* wrong : {"", "proxy.example", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/a", "::/129",
                            "10.0.0.1:80", "[::1]", "10.0.0.0/8/8", "10.0.0.0/ 8"}) {
    EXPECT_THAT(TrustedProxies::Parse({"10.0.0.1", wrong}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat("\"", wrong, "\""))))
        << wrong;
  }
}

}  // namespace
}  // namespace kinora

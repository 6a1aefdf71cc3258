#include "server/gateway/origin_check.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

TEST(OriginCheck, TakesNamesAndAddressesWithoutAPort) {
  for (const char* host : {"clips.example", "10.0.0.1", "[2001:db8::1]", "a_b-c"}) {
    EXPECT_TRUE(OriginCheck::Make({host}).ok()) << host;
  }
  for (const char* host :
       {"", "clips.example:8472", "http://clips.example", "a b", "*", "[", "[]", "a/b", "2001:db8::1"}) {
    EXPECT_FALSE(OriginCheck::Make({host}).ok()) << host;
  }
}

TEST(OriginCheck, TheAddressOfTheConnectionIsAName) {
  KINORA_ASSERT_OK_AND_ASSIGN(const OriginCheck check, OriginCheck::Make({}));
  const HttpRequestHead head = {.method = "GET", .path = "/", .fields = {{"Host", "10.1.2.3:8472"}}};
  EXPECT_FALSE(check.Check(head, "10.1.2.3").has_value());
  EXPECT_EQ(check.Check(head, "10.1.2.4")->status, 421);
  EXPECT_EQ(check.Check(head, "")->status, 421);
}

}  // namespace
}  // namespace kinora

#include "engine/base/utf8.h"

#include <gtest/gtest.h>

namespace kinora {
namespace {

TEST(FindInvalidUtf8, FollowsRfc3629) {
  for (const char* good :
       {"", "a", "é", "€", "😀", "\xF4\x8F\xBF\xBF", "\xEF\xBF\xBD", "\xED\x9F\xBF", "\xEE\x80\x80"}) {
    EXPECT_EQ(FindInvalidUtf8(good), -1) << good;
  }
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3", "\xFF"}) {
    EXPECT_EQ(FindInvalidUtf8(bad), 0);
    EXPECT_EQ(FindInvalidUtf8(std::string("é") + bad), 2);
  }
}

}  // namespace
}  // namespace kinora

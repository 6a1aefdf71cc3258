#include "server/gateway/byte_range.h"

#include <gtest/gtest.h>

namespace kinora {
namespace {

using Kind = ByteRange::Kind;

TEST(ByteRange, NamesOnePartOfAFile) {
  const struct {
    const char* text;
    int64_t first, last;
  } parts[] = {{"bytes=0-0", 0, 0},     {"bytes=2-5", 2, 5}, {"bytes=4-", 4, 9},
               {"bytes=0-99", 0, 9},    {"bytes=-3", 7, 9},  {"bytes=-99", 0, 9},
               {"Bytes= 1 - 2 ", 1, 2}, {"bytes=9-9", 9, 9}, {"bytes=3-99999999999999999999", 3, 9}};
  for (const auto& part : parts) {
    const ByteRange range = ParseByteRange(part.text, 10);
    EXPECT_EQ(range.kind, Kind::kPart) << part.text;
    EXPECT_EQ(range.first, part.first) << part.text;
    EXPECT_EQ(range.last, part.last) << part.text;
  }
}

TEST(ByteRange, OtherwiseTheWholeFileOrNone) {
  for (const char* text :
       {"", "bytes=", "bytes=-", "bytes=5-2", "bytes=a-b", "bytes=0-1,3-4", "items=0-1", "bytes=1", "bytes=--1"}) {
    EXPECT_EQ(ParseByteRange(text, 10).kind, Kind::kWhole) << text;
  }
  for (const char* text : {"bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-"}) {
    EXPECT_EQ(ParseByteRange(text, 10).kind, Kind::kUnsatisfiable) << text;
  }
}

TEST(ByteRange, ETagsAreListed) {
  EXPECT_TRUE(NamesETag("\"a\"", "\"a\""));
  EXPECT_TRUE(NamesETag("\"b\", W/\"a\"", "\"a\""));
  EXPECT_TRUE(NamesETag("*", "\"a\""));
  EXPECT_FALSE(NamesETag("", "\"a\""));
  EXPECT_FALSE(NamesETag("a", "\"a\""));
}

}  // namespace
}  // namespace kinora

#include "server/gateway/http_parser.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using Result = HttpParser::Result;

TEST(HttpParser, TakesRequestsByteByByte) {
  const std::string bytes =
      "POST /a?b=c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /d "
      "HTTP/1.0\r\nHost: "
      "h\r\n\r\n";
  HttpParser parser({});
  std::string input, body;
  size_t i = 0;
  for (Result result = Result::kNeedMore; result == Result::kNeedMore; result = parser.ReadHead(input)) {
    input += bytes[i++];
  }
  EXPECT_EQ(parser.head().method, "POST");
  EXPECT_EQ(parser.head().path, "/a");
  EXPECT_EQ(parser.head().query, "b=c");
  EXPECT_EQ(*parser.head().Find("HOST"), "h");
  EXPECT_TRUE(parser.head().has_body);
  EXPECT_FALSE(parser.head().content_length.has_value());
  while (!parser.body_ended()) {
    input += bytes[i++];
    ASSERT_NE(parser.ReadBody(input, 2, body), Result::kProblem);
  }
  EXPECT_EQ(body, "abc");
  parser.NextRequest();
  input += bytes.substr(i);
  ASSERT_EQ(parser.ReadHead(input), Result::kReady);
  EXPECT_EQ(parser.head().path, "/d");
  EXPECT_TRUE(parser.head().is_http_1_0);
  EXPECT_FALSE(parser.head().keep_alive);
  EXPECT_TRUE(parser.body_ended());
  EXPECT_EQ(input, "");
}

// "0" alone, in pieces, is what Boost.Beast's decoder cannot take.
TEST(HttpParser, AnEmptyChunkedBodyComesByteByByte) {
  HttpParser parser({});
  std::string input = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", body;
  ASSERT_EQ(parser.ReadHead(input), Result::kReady);
  for (const char c : std::string("0\r\nX: y\r\n\r")) {
    input += c;
    ASSERT_EQ(parser.ReadBody(input, 10, body), Result::kNeedMore);
  }
  input += '\n';
  ASSERT_EQ(parser.ReadBody(input, 10, body), Result::kReady);
  EXPECT_TRUE(parser.body_ended());
  EXPECT_EQ(body, "");
}

TEST(HttpParser, MalformedChunksAreProblems) {
  for (const char* chunks : {"g\r\n", "\r\n", "-1\r\n", "+1\r\n", "0x1\r\n", "1 \r\n", "1 2\r\n", "1\n", "1\rx",
                             "1;a\tb\x01\r\n", "1000000000000\r\n", "2\r\nabc\r\n", "1\r\na\n", "0\r\nX: \x01y\r\n"}) {
    HttpParser parser({});
    std::string input = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", body;
    ASSERT_EQ(parser.ReadHead(input), Result::kReady);
    input = chunks;
    Result result = Result::kReady;
    while (result == Result::kReady) result = parser.ReadBody(input, 10, body);
    EXPECT_EQ(result, Result::kProblem) << chunks;
  }
}

TEST(HttpParser, ABodyComesInPiecesOfTheAskedSize) {
  HttpParser parser({});
  std::string input = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcdeGET", body;
  ASSERT_EQ(parser.ReadHead(input), Result::kReady);
  ASSERT_EQ(parser.ReadBody(input, 3, body), Result::kReady);
  EXPECT_EQ(body, "abc");
  ASSERT_EQ(parser.ReadBody(input, 3, body), Result::kReady);
  EXPECT_EQ(body, "abcde");
  EXPECT_TRUE(parser.body_ended());
  EXPECT_EQ(input, "GET");
}

TEST(HttpMessage, QueriesAreDecoded) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto query, ParseQuery("a=b%20c+d&e=&f&%67=%C3%A4"));
  EXPECT_EQ(query, (std::map<std::string, std::string>{{"a", "b c d"}, {"e", ""}, {"f", ""}, {"g", "\xC3\xA4"}}));
  for (const char* wrong : {"a=%", "a=%4", "a=%zz", "a=%00", "a=1&a=2", "a=%0d%0aX"}) {
    EXPECT_FALSE(ParseQuery(wrong).ok()) << wrong;
  }
}

TEST(HttpMessage, NoValueBreaksOutOfItsField) {
  const std::string head = HttpReplyHead(200, {{"X", "a\r\nSet-Cookie: b"}, {"cache-control", "public"}});
  EXPECT_NE(head.find("X: a  Set-Cookie: b\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Cache-Control"), std::string::npos);
}

}  // namespace
}  // namespace kinora

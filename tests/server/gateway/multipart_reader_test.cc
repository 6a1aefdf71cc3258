#include "server/gateway/multipart_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/common/status_details.h"
#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Parts with everything that the grammar allows: a preamble, padding, an empty part, line ends and beginnings of the
// delimiter in data, an epilogue.
const std::string& Everything() {
  static const std::string body = Lines(
      "preamble\n--XX \t\nContent-Disposition: form-data; name=\"a\"\n\none\n--XX\n"
      "content-disposition:form-data;name=b;filename=\"x \\\"y\\\" %22z%22 C:\\dir.png\"\nContent-Type: image/png\n\n"
      "\n\n--X\n--\n-\n\n--XX\nContent-Disposition: form-data; name=\"c\"\n\n\n--XX--  \nepilogue");
  return body;
}

TEST(MultipartReaderTest, PiecesOfEverySizeGiveTheSameParts) {
  for (size_t piece = 1; piece <= Everything().size(); ++piece) {
    KINORA_ASSERT_OK_AND_ASSIGN(const ReadBody read, ReadMultipart(Everything(), "XX", piece));
    ASSERT_EQ(read.headers.size(), 3u) << piece;
    EXPECT_EQ(read.headers[0].name, "a");
    EXPECT_FALSE(read.headers[0].filename.has_value());
    EXPECT_EQ(read.headers[1].name, "b");
    EXPECT_EQ(read.headers[1].filename, "x \"y\" \"z\" C:\\dir.png");
    EXPECT_EQ(read.headers[1].content_type, "image/png");
    EXPECT_EQ(read.files.at("b"), "\r\n\r\n--X\r\n--\r\n-\r\n") << piece;
    EXPECT_EQ(read.headers[2].name, "c");
  }
}

TEST(MultipartReaderTest, DataIsPassedOnBeforeItsPartEnds) {
  size_t data = 0;
  MultipartReader reader("XX", {.on_part = [](const PartHeader&) { return absl::OkStatus(); },
                                .on_data =
                                    [&data](std::string_view bytes) {
                                      EXPECT_FALSE(bytes.empty());
                                      data += bytes.size();
                                      return absl::OkStatus();
                                    },
                                .on_end = [] { return absl::OkStatus(); }});
  ASSERT_THAT(reader.Feed(Lines("--XX\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\n\n")), IsOk());
  const std::string mebibyte(1 << 20, 'x');
  for (size_t i = 1; i <= 3; ++i) {
    ASSERT_THAT(reader.Feed(mebibyte), IsOk());
    EXPECT_EQ(data, i * mebibyte.size());
  }
  ASSERT_THAT(reader.Feed("\r"), IsOk());
  EXPECT_EQ(data, 3 * mebibyte.size()) << "the line end may belong to the delimiter";
  ASSERT_THAT(reader.Feed("x"), IsOk());
  EXPECT_EQ(data, 3 * mebibyte.size() + 2) << "it did not";
  EXPECT_THAT(reader.Finish(), StatusIs(kInvalid, HasSubstr("ends before its last delimiter")));
}

TEST(MultipartReaderTest, AnErrorOfAHandlerEndsTheParse) {
  int calls = 0;
  MultipartReader reader("XX", {.on_part =
                                    [&calls](const PartHeader&) {
                                      ++calls;
                                      return absl::ResourceExhaustedError("full");
                                    },
                                .on_data = [](std::string_view) { return absl::OkStatus(); },
                                .on_end = [] { return absl::OkStatus(); }});
  EXPECT_THAT(reader.Feed(Everything()), StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_THAT(reader.Feed(Everything()), StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_THAT(reader.Finish(), StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_EQ(calls, 1);
}

TEST(MultipartReaderTest, MalformedBodiesAreRejected) {
  const std::string good = "--XX\nContent-Disposition: form-data; name=\"a\"\n\none\n--XX--";
  ASSERT_THAT(ReadMultipart(Lines(good), "XX", 3), IsOk());
  const std::pair<std::string, const char*> cases[] = {
      {"", "ends before its last delimiter"},
      {"--XX\nContent-Disposition: form-data; name=\"a\"\n\none", "ends before its last delimiter"},
      {"--XX\nContent-Disposition: form-data; name=\"a\"\n\none\n--XXX\n", "followed by other bytes"},
      {"--XX\nContent-Type: text/plain\n\none\n--XX--", "no Content-Disposition"},
      {"--XX\n\n\none\n--XX--", "malformed"},
      {"--XX\nContent-Disposition: attachment; name=\"a\"\n\none\n--XX--", "not form-data with a name"},
      {"--XX\nContent-Disposition: form-data\n\none\n--XX--", "not form-data with a name"},
      {"--XX\nContent-Disposition: form-data; name=\"\"\n\none\n--XX--", "not form-data with a name"},
      {"--XX\nContent-Disposition: form-data; name=\"a\n\none\n--XX--", "does not end"},
      {"--XX\nContent-Disposition: form-data; name=a; name=b\n\none\n--XX--", "same parameter twice"},
      {"--XX\nContent-Disposition: form-data; name=\"a\"b\n\none\n--XX--", "malformed"},
      {"--XX\nContent-Disposition: form-data; name=\"a%0Ab\"\n\none\n--XX--", "control character"},
      {"--XX\nContent-Disposition: form-data; name=\"\xff\"\n\none\n--XX--", "not UTF-8"},
      {"--XX\nContent-Disposition: form-data; name=\"a\"\nContent-Disposition: form-data; name=\"b\"\n\none\n--XX--",
       "same header twice"},
      {"--XX\nContent-Disposition: form-data; name=\"a\"\n folded: x\n\none\n--XX--", "malformed"},
      {"--XX\nContent-Disposition: form-data; name=\"a\"\nContent-Transfer-Encoding: base64\n\none\n--XX--",
       "without Content-Transfer-Encoding"}};
  for (const auto& [text, message] : cases) {
    for (const size_t piece : {size_t{1}, size_t{1000}}) {
      const auto read = ReadMultipart(Lines(text), "XX", piece);
      EXPECT_THAT(read, StatusIs(kInvalid, HasSubstr(message))) << text;
      EXPECT_EQ(ErrorReason(read.status()), "MALFORMED_BODY") << text;
    }
  }
}

TEST(MultipartReaderTest, LimitsHold) {
  const std::string part = "--XX\nContent-Disposition: form-data; name=\"f%d\"\n\none\n";
  const auto reason = [](const std::string& body, MultipartLimits limits) {
    return ErrorReason(ReadMultipart(Lines(body), "XX", 5, limits).status());
  };
  const std::string two =
      absl::StrReplaceAll(part, {{"%d", "0"}}) + absl::StrReplaceAll(part, {{"%d", "1"}}) + "--XX--";
  EXPECT_EQ(reason(two, {.parts = 2}), "");
  EXPECT_EQ(reason(two, {.parts = 1}), "BODY_TOO_LARGE");
  EXPECT_EQ(reason(two, {.header_bytes = 30}), "BODY_TOO_LARGE");
  EXPECT_EQ(reason(two, {.name_bytes = 1}), "MALFORMED_BODY");
  EXPECT_EQ(reason(std::string(20, 'p') + "\n" + two, {.preamble_bytes = 22}), "");
  EXPECT_EQ(reason(std::string(20, 'p') + "\n" + two, {.preamble_bytes = 16}), "BODY_TOO_LARGE");
  EXPECT_EQ(reason(two + "\n" + std::string(20, 'e'), {.preamble_bytes = 16}), "BODY_TOO_LARGE");
  EXPECT_EQ(reason("--XX" + std::string(200, ' '), {}), "MALFORMED_BODY");
  EXPECT_EQ(reason("--XX\nContent-Disposition: form-data; name=\"" + std::string(9000, 'n'), {}), "BODY_TOO_LARGE");
}

TEST(MultipartBoundaryTest, IsTakenFromTheContentType) {
  EXPECT_THAT(MultipartBoundary("multipart/form-data; boundary=abc"), IsOkAndHolds("abc"));
  EXPECT_THAT(MultipartBoundary("Multipart/Form-Data;charset=utf-8; Boundary=\"a b:c\" ;"), IsOkAndHolds("a b:c"));
  for (const char* wrong : {"", "multipart/mixed; boundary=abc", "multipart/form-data",
                            "multipart/form-data; boundary=", "multipart/form-data; boundary=\"abc \"",
                            "multipart/form-data; boundary=a\x7f", "multipart/form-data; boundary=\"a",
                            "multipart/form-data; boundary", "multipart/form-data; boundary=a; boundary=b"}) {
    EXPECT_THAT(MultipartBoundary(wrong), StatusIs(kInvalid)) << wrong;
  }
  EXPECT_THAT(MultipartBoundary("multipart/form-data; boundary=" + std::string(70, 'x')), IsOk());
  EXPECT_THAT(MultipartBoundary("multipart/form-data; boundary=" + std::string(71, 'x')), StatusIs(kInvalid));
}

}  // namespace
}  // namespace kinora

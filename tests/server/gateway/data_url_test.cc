#include "server/gateway/data_url.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(DataUrlTest, ReadsBase64AndPercentForms) {
  const struct {
    std::string url, media_type, bytes;
  } cases[] = {{"data:image/png;base64,iVBORw0KGgo=", "image/png", "\x89PNG\r\n\x1a\n"},
               {"DATA:Image/PNG;Base64,YWI=", "image/png", "ab"},
               {"data:image/png;base64,YWI", "image/png", "ab"},
               {"data:image/png;base64,Y%57I%3D", "image/png", "ab"},
               {"data:image/png;base64,Y W\r\nI=\n", "image/png", "ab"},
               {"data:image/svg+xml;charset=utf-8;base64,YWI=", "image/svg+xml", "ab"},
               {"data:,a,b", "", "a,b"},
               {"data:;base64,YWI=", "", "ab"},
               {"data:;charset=utf-8,a", "", "a"},
               {"data:base64,YWI=", "", ""},  // "base64" is no type
               {"data:audio/wav,%52IFF%00%ff+%2B", "audio/wav", std::string("RIFF\0\xff++", 8)}};
  for (const auto& [url, media_type, bytes] : cases) {
    const absl::StatusOr<DataUrl> parsed = ParseDataUrl(url);
    if (bytes.empty()) {
      EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kInvalidArgument)) << url;
      continue;
    }
    ASSERT_THAT(parsed, IsOk()) << url;
    EXPECT_EQ(parsed->media_type, media_type) << url;
    EXPECT_EQ(parsed->bytes, bytes) << url;
  }
}

TEST(DataUrlTest, RejectsWhatIsNone) {
  const std::string url = "data:image/png,";
  for (const std::string& text :
       {std::string("data:image/png"), std::string("date:,a"), url + "a b", url + "a#b", url + "a\n", url + "\x80",
        url + "%", url + "%4", url + "%4x", url + std::string("a\0", 2), std::string("data:image/,a"),
        std::string("data:/png,a"), std::string("data:image png/x,a"), std::string("data:image,a"),
        absl::StrCat("data:image/png;", std::string(300, 'x'), ",a"),
        absl::StrCat("data:image/", std::string(200, 'x'), ",a")}) {
    EXPECT_THAT(ParseDataUrl(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of the form"))) << text;
  }
  for (const char* text : {"data:,", "data:;base64,", "data:image/png;base64,  "}) {
    EXPECT_THAT(ParseDataUrl(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no data"))) << text;
  }
  for (const char* text : {"data:;base64,*", "data:;base64,YWI=YWI=", "data:;base64,Y", "data:;base64,YWI#"}) {
    EXPECT_THAT(ParseDataUrl(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace kinora

#include "server/s3/s3_location.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(LocateBucket, OfAwsIsAHostOfItsOwn) {
  KINORA_ASSERT_OK_AND_ASSIGN(const S3Location at, LocateBucket({.url = "s3://clips/a/b/", .region = "eu-central-1"}));
  EXPECT_EQ(at.scheme, "https");
  EXPECT_EQ(at.host, "clips.s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(at.Path("job/1/video.mp4"), "/a/b/job/1/video.mp4");
  EXPECT_EQ(at.Path(""), "/");
  EXPECT_EQ(at.InBucket("x"), "a/b/x");
}

TEST(LocateBucket, OfAnotherServerIsInThePathIfAsked) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const S3Location at,
      LocateBucket({.url = "s3://clips", .endpoint = "http://127.0.0.1:9000/", .path_style = true}));
  EXPECT_EQ(at.scheme, "http");
  EXPECT_EQ(at.host, "127.0.0.1:9000");
  EXPECT_EQ(at.region, "us-east-1");
  EXPECT_EQ(at.Path("k"), "/clips/k");
  EXPECT_EQ(at.Path(""), "/clips/");
}

TEST(LocateBucket, WithADotIsInThePathBecauseNoCertificateHasItsHost) {
  KINORA_ASSERT_OK_AND_ASSIGN(const S3Location at, LocateBucket({.url = "s3://my.clips", .region = "eu-central-1"}));
  EXPECT_EQ(at.host, "s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(at.Path("k"), "/my.clips/k");
}

TEST(LocateBucket, OmitsTheSchemesOwnPortWhichTheFieldHostDoesNotHave) {
  const auto host = [](const char* endpoint) {
    return LocateBucket({.url = "s3://clips", .endpoint = endpoint, .path_style = true})->host;
  };
  EXPECT_EQ(host("https://s3.example:443"), "s3.example");
  EXPECT_EQ(host("http://s3.example:80"), "s3.example");
  EXPECT_EQ(host("http://s3.example:443"), "s3.example:443");
  EXPECT_EQ(host("https://[::1]:9000"), "[::1]:9000");
}

TEST(LocateBucket, NamesTheOptionThatIsWrong) {
  const auto why = [](const S3Options& options) {
    const auto located = LocateBucket(options);
    return located.ok() ? "" : std::string(located.status().message());
  };
  for (const char* url :
       {"s3://", "s3:///a", "s3://ab", "s3://Clips", "s3://-clips", "s3://a..b", "file:///x", "clips"}) {
    EXPECT_THAT(why({.url = url}), HasSubstr("artifacts: \"")) << url;
  }
  for (const char* prefix : {"a//b", "/a", "a/../b", ".a", "a b", "ä"}) {
    EXPECT_THAT(why({.url = std::string("s3://clips/") + prefix}), HasSubstr("a prefix must be")) << prefix;
  }
  for (const char* endpoint : {"s3.example", "ftp://s3.example", "https://", "https://a/b", "https://user@host",
                               "https://host:0", "https://host:99999", "https://h?x", "https://h#x"}) {
    EXPECT_THAT(why({.url = "s3://clips", .endpoint = endpoint}), HasSubstr("s3_endpoint: \"")) << endpoint;
  }
  EXPECT_THAT(why({.url = "s3://clips", .region = "Frankfurt!"}), HasSubstr("s3_region: \"Frankfurt!\""));
}

}  // namespace
}  // namespace kinora

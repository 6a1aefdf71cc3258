#include "server/s3/s3_answers.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

TEST(S3Answers, AnErrorHasItsCode) {
  const S3Error error = ParseS3Error(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code><Message>The key &amp; "
      "such</Message></Error>");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "The key & such");
  EXPECT_EQ(
      ParseS3Error("<ErrorResponse xmlns=\"https://sts\"><Error><Code>Expired</Code></Error></ErrorResponse>").code,
      "Expired");
  for (const char* other : {"", "<", "<Error>", "<CompleteMultipartUploadResult/>", "no xml", "<a><Error/></a>"}) {
    EXPECT_EQ(ParseS3Error(other).code, "") << other;
  }
}

TEST(S3Answers, AListingHasItsKeysPrefixesAndNextPage) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const S3Listing listing,
      ParseListing(
          "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>"
          "<Contents><Key>a/b</Key><Size>12</Size><LastModified>2024-02-29T23:59:58.000Z</LastModified></Contents>"
          "<Contents><Key>a/c</Key><Size>x</Size><LastModified>?</LastModified></Contents>"
          "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>"
          "<NextContinuationToken>1=</NextContinuationToken></ListBucketResult>"));
  ASSERT_EQ(listing.objects.size(), 2u);
  EXPECT_EQ(listing.objects[0].key, "a/b");
  EXPECT_EQ(listing.objects[0].bytes, 12);
  EXPECT_EQ(listing.objects[0].modified, absl::FromUnixSeconds(1709251198));
  EXPECT_EQ(listing.objects[1].modified, absl::InfinitePast());
  EXPECT_EQ(listing.prefixes, std::vector<std::string>{"d/"});
  EXPECT_EQ(listing.next, "1=");
  EXPECT_THAT(ParseListing("<Error/>"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ParseListing("<ListBucketResult><Contents>"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(S3Answers, ACompletionHasItsPartsInOrder) {
  EXPECT_EQ(CompletionBody({"\"a\"", "\"<\""}),
            "<?xml version=\"1.0\"?><CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            "<Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>\"&lt;\"</ETag></Part></CompleteMultipartUpload>");
  EXPECT_THAT(ParseUploadId("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"),
              IsOkAndHolds(std::string("u")));
  EXPECT_THAT(ParseUploadId("<InitiateMultipartUploadResult/>"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(S3Answers, AssumedKeysAreComplete) {
  const std::string reply =
      "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
      "<SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken><Expiration>2024-02-29T23:59:58Z</Expiration>"
      "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
  KINORA_ASSERT_OK_AND_ASSIGN(const AwsKeys keys, ParseAssumedRole(reply));
  EXPECT_EQ(keys.id + keys.secret + keys.session_token, "AST");
  EXPECT_EQ(keys.expiry, absl::FromUnixSeconds(1709251198));
  for (const char* field : {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"}) {
    std::string without = reply;
    without.replace(without.find(field), std::string(field).size(), "Other");
    EXPECT_THAT(ParseAssumedRole(without), StatusIs(absl::StatusCode::kUnavailable)) << field;
  }
}

}  // namespace
}  // namespace kinora

#include "server/s3/aws_credentials.h"

#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/s3_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class Credentials : public testing::Test {
 protected:
  void Set(const char* name, const std::string& value) { environment_[name] = value; }
  AwsCredentials Make() {
    return AwsCredentials("eu-central-1", http_, clock_, [this](const char* name) {
      const auto found = environment_.find(name);
      return found == environment_.end() ? "" : found->second;
    });
  }

  TemporaryDirectory directory_;
  HttpClient http_;
  FakeClock clock_;
  std::map<std::string, std::string> environment_ = {{"HOME", "/nonexistent"}, {"AWS_EC2_METADATA_DISABLED", "true"}};
};

std::string FileOf(const std::string& id) {
  return absl::StrCat(
      "# mine\n[other]\naws_access_key_id = no\naws_secret_access_key = no\n\n[ work ]\naws_access_key_id=", id,
      "\n aws_secret_access_key = s=3 \naws_session_token = t\n");
}

TEST_F(Credentials, OfTheEnvironmentComeFirst) {
  Set("AWS_ACCESS_KEY_ID", "id");
  Set("AWS_SECRET_ACCESS_KEY", "secret");
  Set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
  KINORA_ASSERT_OK_AND_ASSIGN(const AwsKeys keys, Make().Get());
  EXPECT_EQ(keys.id, "id");
  EXPECT_EQ(keys.secret, "secret");
}

TEST_F(Credentials, OfAFileAreThoseOfTheProfileAndReadAgainWhenTheyChange) {
  const std::string file = directory_.File("credentials");
  WriteFile(file, FileOf("first"));
  Set("AWS_SHARED_CREDENTIALS_FILE", file);
  Set("AWS_PROFILE", "work");
  AwsCredentials credentials = Make();
  KINORA_ASSERT_OK_AND_ASSIGN(const AwsKeys first, credentials.Get());
  EXPECT_EQ(first.id, "first");
  EXPECT_EQ(first.secret, "s=3");
  EXPECT_EQ(first.session_token, "t");
  WriteFile(file, FileOf("second"));
  EXPECT_EQ(credentials.Get()->id, "first");
  clock_.Advance(absl::Minutes(2));
  EXPECT_EQ(credentials.Get()->id, "second");
  WriteFile(file, FileOf("third"));
  credentials.Refuse({.id = "first", .session_token = "t"});
  EXPECT_EQ(credentials.Get()->id, "second") << "others were refused";
  credentials.Refuse({.id = "second", .session_token = "t"});
  EXPECT_EQ(credentials.Get()->id, "third");
}

TEST_F(Credentials, ThatAreNowhereAreAnErrorThatSaysWhatToSet) {
  EXPECT_THAT(Make().Get(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("set AWS_ACCESS_KEY_ID and")));
  Set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
  EXPECT_THAT(Make().Get(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("/nonexistent: cannot be read")));
  const std::string file = directory_.File("credentials");
  WriteFile(file, FileOf("id"));
  Set("AWS_SHARED_CREDENTIALS_FILE", file);
  EXPECT_THAT(Make().Get(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("of profile default")));
}

class FetchedCredentials : public Credentials {
 protected:
  void SetUp() override {
    if (!S3Server::IsInstalled()) GTEST_SKIP() << "moto is not installed";
    server_ = &S3Server::Shared();
    server_->ClearFaults();
  }

  S3Server* server_ = nullptr;
};

constexpr char kRole[] =
    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
    "<SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken><Expiration>$</Expiration>"
    "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

std::string RoleUntil(absl::Time expiry) {
  std::string body = kRole;
  return body.replace(body.find('$'), 1, absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", expiry, absl::UTCTimeZone()));
}

TEST_F(FetchedCredentials, OfAWebIdentityAreFetchedAgainBeforeTheyExpire) {
  const std::string token = directory_.File("token");
  WriteFile(token, "jwt\n");
  Set("AWS_WEB_IDENTITY_TOKEN_FILE", token);
  EXPECT_THAT(Make().Get(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("AWS_ROLE_ARN must be set")));
  Set("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/kinora");
  Set("AWS_ENDPOINT_URL_STS", absl::StrCat(server_->endpoint(), "/sts"));
  AwsCredentials credentials = Make();
  const auto reply = [&](int status, const std::string& body) {
    return absl::StrCat(R"([{"match": "^POST /sts", "kind": "reply", "status": )", status, R"(, "body": ")", body,
                        "\"}]");
  };
  server_->SetFaults(reply(200, RoleUntil(clock_.Now() + absl::Hours(1))));
  KINORA_ASSERT_OK_AND_ASSIGN(const AwsKeys keys, credentials.Get());
  EXPECT_EQ(keys.id + keys.secret + keys.session_token, "AST");
  const int asked = server_->CountRequests("^POST /sts");
  clock_.Advance(absl::Minutes(54));
  EXPECT_EQ(credentials.Get()->id, "A");
  EXPECT_EQ(server_->CountRequests("^POST /sts"), asked);
  clock_.Advance(absl::Minutes(2));
  server_->SetFaults(reply(500, ""));
  EXPECT_EQ(credentials.Get()->id, "A") << "they are still valid";
  EXPECT_EQ(server_->CountRequests("^POST /sts"), asked + 1);
  clock_.Advance(absl::Minutes(4));
  server_->SetFaults(
      reply(403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"));
  EXPECT_THAT(credentials.Get(), StatusIs(absl::StatusCode::kPermissionDenied,
                                          HasSubstr("AssumeRoleWithWebIdentity: AccessDenied: no (HTTP 403)")));
}

TEST_F(FetchedCredentials, OfAnInstanceNeedATokenOfItsMetadataService) {
  environment_.erase("AWS_EC2_METADATA_DISABLED");
  Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server_->endpoint());
  server_->SetFaults(R"([
    {"match": "^PUT /latest/api/token$", "kind": "reply", "status": 200, "body": "tok"},
    {"match": "^GET /latest/meta-data/iam/security-credentials/$", "kind": "reply", "status": 200, "body": "role\n"},
    {"match": "^GET /latest/meta-data/iam/security-credentials/role$", "kind": "reply", "status": 200, "times": 2,
     "body": "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\", \"Token\": \"T\", \"Expiration\": \"2100-01-01T00:00:00Z\"}"}])");
  AwsCredentials credentials = Make();
  KINORA_ASSERT_OK_AND_ASSIGN(const AwsKeys keys, credentials.Get());
  EXPECT_EQ(keys.id + keys.secret + keys.session_token, "AST");
  for (const char* body : {"", "[]", "{}", R"({\"AccessKeyId\": 1})", "{"}) {
    server_->SetFaults(absl::StrCat(R"([{"match": "token$", "kind": "reply", "status": 200, "body": "tok"},
      {"match": "credentials/$", "kind": "reply", "status": 200, "body": "role"},
      {"match": "role$", "kind": "reply", "status": 200, "body": ")",
                                    body, "\"}]"));
    EXPECT_THAT(Make().Get(), StatusIs(absl::StatusCode::kPermissionDenied)) << body;
  }
}

TEST_F(FetchedCredentials, OfAContainerComeWithItsToken) {
  const std::string token = directory_.File("token");
  WriteFile(token, "pod\n");
  Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", absl::StrCat(server_->endpoint(), "/pod"));
  Set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token);
  const auto reply = [&](int status) {
    server_->SetFaults(absl::StrCat(R"([{"match": "^GET /pod$", "kind": "reply", "status": )", status, R"(, "body":
      "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\", \"Token\": \"T\", \"Expiration\": \"2100-01-01T00:00:00Z\"}"}])"));
  };
  reply(200);
  KINORA_ASSERT_OK_AND_ASSIGN(const AwsKeys keys, Make().Get());
  EXPECT_EQ(keys.id + keys.secret + keys.session_token, "AST");
  reply(401);
  EXPECT_THAT(Make().Get(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("HTTP 401")));
}

}  // namespace
}  // namespace kinora

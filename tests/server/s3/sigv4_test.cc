#include "server/s3/sigv4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using nlohmann::json;

NamedValues ValuesIn(const json& object) {
  NamedValues values;
  for (const auto& [name, value] : object.items()) values.emplace_back(name, value.get<std::string>());
  return values;
}

std::string Find(const NamedValues& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
  return found == values.end() ? "" : found->second;
}

// "a=1&b=2" in the order of the names.
std::vector<std::string> Sorted(const std::string& query) {
  std::vector<std::string> parts = absl::StrSplit(query, '&');
  std::sort(parts.begin(), parts.end());
  return parts;
}

// Requests that botocore has signed (write_signatures.py).
class Signatures : public testing::Test {
 protected:
  Signatures() {
    EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, file_["now"].get<std::string>(), &scope_.now, nullptr));
    scope_.region = file_["region"];
  }
  static AwsRequest RequestOf(const json& one) {
    return {.method = one["method"],
            .host = one["host"],
            .path = one["path"],
            .query = ValuesIn(one.value("query", json::object())),
            .headers = ValuesIn(one.value("headers", json::object()))};
  }
  AwsKeys KeysOf(const json& one) const {
    return {.id = file_["id"], .secret = file_["secret"], .session_token = one.value("token", "")};
  }

  const json file_ = json::parse(ReadFile(KINORA_SOURCE_DIR "/tests/server/s3/data/signatures.json"));
  SigningScope scope_;
};

TEST_F(Signatures, OfHeadersAreThoseOfBotocore) {
  for (const json& one : file_["cases"]) {
    const NamedValues headers =
        SignedHeaders(RequestOf(one), one.value("payload", std::string(kEmptySha256)), KeysOf(one), scope_);
    EXPECT_EQ(Find(headers, "authorization"), one["authorization"]) << one;
    EXPECT_EQ(Find(headers, "x-amz-date"), "20240229T235958Z");
    EXPECT_EQ(Find(headers, "x-amz-security-token"), one.value("token", ""));
  }
}

TEST_F(Signatures, OfLinksAreThoseOfBotocore) {
  int links = 0;
  for (const json& one : file_["cases"]) {
    if (!one.contains("link")) continue;
    ++links;
    const std::string query = PresignedQuery(RequestOf(one), KeysOf(one), scope_, absl::Hours(1));
    const std::string link = one["link"];
    EXPECT_EQ(Sorted(query), Sorted(link.substr(link.find('?') + 1))) << one;
  }
  EXPECT_EQ(links, 3);
}

TEST_F(Signatures, EveryPartOfARequestChangesTheSignature) {
  const AwsRequest request{.method = "GET", .host = "h", .path = "/p", .query = {{"a", "b"}}, .headers = {{"c", "d"}}};
  const AwsKeys keys{.id = "id", .secret = "secret"};
  const auto sign = [&](const AwsRequest& changed, const AwsKeys& with, const SigningScope& scope,
                        const std::string& payload = kEmptySha256) {
    return Find(SignedHeaders(changed, payload, with, scope), "authorization");
  };
  std::vector<std::string> signatures = {sign(request, keys, scope_)};
  AwsRequest other = request;
  for (std::string* part :
       {&other.method, &other.host, &other.path, &other.query[0].second, &other.headers[0].second}) {
    *part += "x";
    signatures.push_back(sign(other, keys, scope_));
  }
  signatures.push_back(sign(request, {.id = "id", .secret = "other"}, scope_));
  signatures.push_back(sign(request, keys, {.region = "us-east-1", .now = scope_.now}));
  signatures.push_back(sign(request, keys, {.region = scope_.region, .now = scope_.now + absl::Seconds(1)}));
  signatures.push_back(sign(request, keys, scope_, std::string(64, 'a')));
  std::sort(signatures.begin(), signatures.end());
  EXPECT_EQ(std::unique(signatures.begin(), signatures.end()), signatures.end());
}

TEST(UriEncode, KeepsWhatTheSignatureKeeps) {
  EXPECT_EQ(UriEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(UriEncode("a/b c+ü"), "a%2Fb%20c%2B%C3%BC");
  EXPECT_EQ(UriEncode("a/b", /*keep_slash=*/true), "a/b");
}

}  // namespace
}  // namespace kinora

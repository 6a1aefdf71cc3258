#include "server/s3/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";
constexpr char kService[] = "s3";
constexpr char kUnsignedPayload[] = "UNSIGNED-PAYLOAD";

std::string Hmac(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), digest, &size);
  return std::string(reinterpret_cast<const char*>(digest), size);
}

std::string TimeStamp(absl::Time now) { return absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()); }
std::string Day(absl::Time now) { return absl::FormatTime("%Y%m%d", now, absl::UTCTimeZone()); }

std::string ScopeText(const SigningScope& scope) {
  return absl::StrCat(Day(scope.now), "/", scope.region, "/", kService, "/aws4_request");
}

std::string SignedNames(const NamedValues& sorted) {
  return absl::StrJoin(sorted, ";", [](std::string* out, const auto& field) { out->append(field.first); });
}

// headers: all that are signed, in order.
std::string Signature(const AwsRequest& request, const std::string& query, const NamedValues& headers,
                      std::string_view payload, const AwsKeys& keys, const SigningScope& scope) {
  std::string canonical =
      absl::StrCat(request.method, "\n", UriEncode(request.path, /*keep_slash=*/true), "\n", query, "\n");
  for (const auto& [name, value] : headers) absl::StrAppend(&canonical, name, ":", value, "\n");
  absl::StrAppend(&canonical, "\n", SignedNames(headers), "\n", std::string(payload));
  const std::string text =
      absl::StrCat(kAlgorithm, "\n", TimeStamp(scope.now), "\n", ScopeText(scope), "\n", Sha256Hex(canonical));
  std::string key = absl::StrCat("AWS4", keys.secret);
  for (const std::string& part : {Day(scope.now), scope.region, std::string(kService), std::string("aws4_request")}) {
    key = Hmac(key, part);
  }
  return absl::BytesToHexString(Hmac(key, text));
}

}  // namespace

std::string UriEncode(std::string_view text, bool keep_slash) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool kept = absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~';
    if (kept || (keep_slash && c == '/')) {
      out += c;
    } else {
      absl::StrAppend(&out, "%", absl::AsciiStrToUpper(absl::BytesToHexString(std::string(1, c))));
    }
  }
  return out;
}

std::string EncodeQuery(const NamedValues& query) {
  NamedValues encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query) encoded.emplace_back(UriEncode(name), UriEncode(value));
  std::sort(encoded.begin(), encoded.end());
  return absl::StrJoin(encoded, "&", absl::PairFormatter("="));
}

NamedValues SignedHeaders(const AwsRequest& request, std::string_view payload_sha256, const AwsKeys& keys,
                          const SigningScope& scope) {
  NamedValues added = request.headers;
  added.emplace_back("x-amz-content-sha256", payload_sha256);
  added.emplace_back("x-amz-date", TimeStamp(scope.now));
  if (!keys.session_token.empty()) added.emplace_back("x-amz-security-token", keys.session_token);
  NamedValues headers = added;
  headers.emplace_back("host", request.host);
  std::sort(headers.begin(), headers.end());
  const std::string signature = Signature(request, EncodeQuery(request.query), headers, payload_sha256, keys, scope);
  added.emplace_back("authorization",
                     absl::StrCat(kAlgorithm, " Credential=", keys.id, "/", ScopeText(scope),
                                  ", SignedHeaders=", SignedNames(headers), ", Signature=", signature));
  return added;
}

std::string PresignedQuery(const AwsRequest& request, const AwsKeys& keys, const SigningScope& scope,
                           absl::Duration lifetime) {
  NamedValues query = request.query;
  query.emplace_back("X-Amz-Algorithm", kAlgorithm);
  query.emplace_back("X-Amz-Credential", absl::StrCat(keys.id, "/", ScopeText(scope)));
  query.emplace_back("X-Amz-Date", TimeStamp(scope.now));
  query.emplace_back("X-Amz-Expires", absl::StrCat(absl::ToInt64Seconds(lifetime)));
  if (!keys.session_token.empty()) query.emplace_back("X-Amz-Security-Token", keys.session_token);
  query.emplace_back("X-Amz-SignedHeaders", "host");
  const std::string encoded = EncodeQuery(query);
  return absl::StrCat(encoded, "&X-Amz-Signature=",
                      Signature(request, encoded, {{"host", request.host}}, kUnsignedPayload, keys, scope));
}

}  // namespace kinora

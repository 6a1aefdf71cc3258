// Signs requests to S3: AWS Signature Version 4, as in "Authenticating Requests" of the Amazon S3 API Reference. No I/O
// and no clock.
#ifndef KINORA_SERVER_S3_SIGV4_H_
#define KINORA_SERVER_S3_SIGV4_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace kinora {

using NamedValues = std::vector<std::pair<std::string, std::string>>;  // fields of a header, or parameters of a query

struct AwsKeys {
  std::string id, secret;
  std::string session_token;  // empty: the keys are permanent
  absl::Time expiry = absl::InfiniteFuture();
};

struct AwsRequest {
  std::string method;      // "GET"
  std::string host;        // as in the field Host: with the port unless it is the scheme's own
  std::string path = "/";  // begins with "/"; not encoded
  NamedValues query;       // not encoded
  NamedValues headers;     // names in lower case; without Host and what signing adds
};

// What the signature is for.
struct SigningScope {
  std::string region;  // "eu-central-1"
  absl::Time now;
};

// The SHA-256 of no bytes.
inline constexpr char kEmptySha256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// Encodes all bytes but A-Z a-z 0-9 - . _ ~, and "/" if `keep_slash`, as %XX.
std::string UriEncode(std::string_view text, bool keep_slash = false);
// "name=value&…", encoded, in the order of the signature.
std::string EncodeQuery(const NamedValues& query);

// Returns the request's headers with x-amz-date, x-amz-content-sha256, x-amz-security-token (if the keys are temporary)
// and authorization added. payload_sha256: lower-case hex.
NamedValues SignedHeaders(const AwsRequest& request, std::string_view payload_sha256, const AwsKeys& keys,
                          const SigningScope& scope);

// Returns the request's query as a text whose holder may make the request within `lifetime` (1 s to 7 days) without
// keys. The request must have no headers.
std::string PresignedQuery(const AwsRequest& request, const AwsKeys& keys, const SigningScope& scope,
                           absl::Duration lifetime);

}  // namespace kinora

#endif  // KINORA_SERVER_S3_SIGV4_H_

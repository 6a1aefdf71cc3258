#include "server/s3/s3_location.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/common/artifact_store.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr char kScheme[] = "s3://";
constexpr size_t kMostPrefix = 200;  // keys of S3 have at most 1,024 bytes

bool IsLabelCharacter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) || absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
         c == '-';
}

bool IsBucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c == '.' || IsLabelCharacter(c); }) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.back())) && !absl::StrContains(std::string(name), "..");
}

// HOST or HOST:PORT; a host of letters, digits, dots and hyphens, or an IPv6 address in brackets.
bool IsAuthority(std::string_view text) {
  const size_t colon = text.find_last_of(":]");
  if (colon != std::string_view::npos && text[colon] == ':') {
    int port = 0;
    if (!absl::SimpleAtoi(std::string(text.substr(colon + 1)), &port) || port < 1 || port > 65535) return false;
    text = text.substr(0, colon);
  }
  const bool v6 = text.size() > 2 && text.front() == '[' && text.back() == ']';
  if (v6) text = text.substr(1, text.size() - 2);
  return !text.empty() && std::all_of(text.begin(), text.end(), [v6](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return absl::ascii_isalnum(byte) || c == '.' || (v6 ? c == ':' : c == '-');
  });
}

absl::Status SetEndpoint(const S3Options& options, S3Location& out) {
  const std::string endpoint =
      options.endpoint.empty() ? absl::StrCat("https://s3.", out.region, ".amazonaws.com") : options.endpoint;
  std::string_view host = endpoint;
  const size_t end = host.find("://");
  if (end != std::string_view::npos) {
    out.scheme = std::string(host.substr(0, end));
    host.remove_prefix(end + 3);
    if (!host.empty() && host.back() == '/') host.remove_suffix(1);
  }
  if ((out.scheme != "https" && out.scheme != "http") || !IsAuthority(host)) {
    return InvalidField(
        "s3_endpoint",
        absl::StrCat("\"", endpoint, "\": must be https://HOST, https://HOST:PORT, or the same with http"));
  }
  // Fields Host of HTTP clients omit the scheme's own port, and the signature has the field.
  if (out.scheme == "https" && absl::EndsWith(std::string(host), ":443")) host.remove_suffix(4);
  if (out.scheme == "http" && absl::EndsWith(std::string(host), ":80")) host.remove_suffix(3);
  out.host = out.path_style ? std::string(host) : absl::StrCat(out.bucket, ".", std::string(host));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<S3Location> LocateBucket(const S3Options& options) {
  const std::string rest(absl::StripPrefix(options.url, kScheme));
  const size_t slash = std::min(rest.find('/'), rest.size());
  S3Location out{.bucket = rest.substr(0, slash), .prefix = rest.substr(std::min(slash + 1, rest.size()))};
  if (!out.prefix.empty() && out.prefix.back() == '/') out.prefix.pop_back();
  if (!absl::StartsWith(options.url, kScheme) || !IsBucket(out.bucket)) {
    return InvalidField("artifacts",
                        absl::StrCat("\"", options.url,
                                     "\": must be s3://BUCKET or s3://BUCKET/PREFIX, with a bucket of 3 to 63 "
                                     "lower-case letters, digits, dots and hyphens"));
  }
  if (!out.prefix.empty() && (!CheckArtifactKey(out.prefix).ok() || out.prefix.size() > kMostPrefix)) {
    return InvalidField("artifacts",
                        absl::StrCat("\"", out.prefix,
                                     "\": a prefix must be names of letters, digits and ._- between slashes, at most ",
                                     kMostPrefix, " characters in all"));
  }
  out.region = options.region.empty() ? "us-east-1" : options.region;
  if (!std::all_of(out.region.begin(), out.region.end(), IsLabelCharacter)) {
    return InvalidField(
        "s3_region",
        absl::StrCat("\"", out.region, "\": must be lower-case letters, digits and hyphens, such as eu-central-1"));
  }
  // A bucket with a dot has no valid certificate as a part of the host.
  out.path_style = options.path_style || absl::StrContains(out.bucket, ".");
  KINORA_RETURN_IF_ERROR(SetEndpoint(options, out));
  return out;
}

std::string S3Location::InBucket(const std::string& key) const {
  return prefix.empty() ? key : absl::StrCat(prefix, "/", key);
}

std::string S3Location::Path(const std::string& key) const {
  return absl::StrCat(path_style ? absl::StrCat("/", bucket) : "", "/", key.empty() ? "" : InBucket(key));
}

}  // namespace kinora

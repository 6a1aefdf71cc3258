#include "server/gateway/input_url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr char kScheme[] = "https://";
constexpr size_t kSchemeSize = sizeof(kScheme) - 1;
constexpr size_t kLongestUrl = 8192;
constexpr size_t kLongestName = 253;  // of DNS
constexpr int kHttpsPort = 443, kLastPort = 65535;

bool IsName(const std::string& text) {
  const auto part_of_name = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_'; };
  return !text.empty() && text.size() <= kLongestName && text.front() != '.' && text.back() != '.' &&
         text.find("..") == std::string::npos && std::all_of(text.begin(), text.end(), part_of_name);
}

bool IsIPv6(const std::string& text) {
  in6_addr address;
  return text.size() > 2 && text.front() == '[' && text.back() == ']' &&
         inet_pton(AF_INET6, text.substr(1, text.size() - 2).c_str(), &address) == 1;
}

bool IsIPv4(const std::string& text) {
  in_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// "HOST", "HOST:PORT". False: malformed.
bool SplitHost(std::string_view text, std::string& host, int& port) {
  const size_t bracket = text.find(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  host = absl::AsciiStrToLower(absl::string_view(text.data(), std::min(colon, text.size())));
  if (colon == std::string_view::npos) return IsName(host) || IsIPv6(host);
  const std::string digits(text.substr(colon + 1));
  const bool number = !digits.empty() && digits.size() <= 5 &&
                      std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  return number && absl::SimpleAtoi(digits, &port) && port >= 1 && port <= kLastPort && (IsName(host) || IsIPv6(host));
}

bool Allows(const AllowedHost& allowed, const InputUrl& url) {
  if (allowed.port != url.port) return false;
  return allowed.subdomains ? absl::EndsWith(url.host, absl::StrCat(".", allowed.name)) : url.host == allowed.name;
}

}  // namespace

absl::StatusOr<AllowedHost> ParseAllowedHost(std::string_view text) {
  AllowedHost allowed{.port = kHttpsPort};
  allowed.subdomains = text.substr(0, 2) == "*.";
  if (allowed.subdomains) text.remove_prefix(2);
  const bool valid = SplitHost(text, allowed.name, allowed.port);
  allowed.literal = IsIPv4(allowed.name) || IsIPv6(allowed.name);
  if (valid && !(allowed.subdomains && allowed.literal)) return allowed;
  return absl::InvalidArgumentError("must be HOST, *.DOMAIN, or an IP address, with :PORT unless it is 443");
}

bool IsServerUrl(std::string_view text) {
  const absl::string_view view(text.data(), text.size());
  return absl::StartsWithIgnoreCase(view, "https://") || absl::StartsWithIgnoreCase(view, "http://");
}

absl::StatusOr<InputUrl> ParseInputUrl(std::string_view text) {
  if (!absl::StartsWithIgnoreCase(absl::string_view(text.data(), text.size()), kScheme)) {
    return absl::InvalidArgumentError("must be an https:// URL");
  }
  if (text.size() > kLongestUrl)
    return absl::InvalidArgumentError(absl::StrCat("has more than ", kLongestUrl, " bytes"));
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  const std::string_view rest = text.substr(kSchemeSize);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  InputUrl url{.text = absl::StrCat(kScheme, std::string(rest)), .port = kHttpsPort};
  if (!plain || text.find_first_of("\\#") != std::string_view::npos || !SplitHost(authority, url.host, url.port)) {
    return absl::InvalidArgumentError("must be a URL https://HOST[:PORT]/PATH without spaces, user names, # and \\");
  }
  return url;
}

absl::StatusOr<AllowedUrl> CheckInputUrl(std::string_view text, const std::vector<AllowedHost>& hosts) {
  KINORA_ASSIGN_OR_RETURN(InputUrl url, ParseInputUrl(text));
  for (const AllowedHost& host : hosts) {
    if (Allows(host, url)) return AllowedUrl{std::move(url), host};
  }
  const std::string host = url.port == kHttpsPort ? url.host : absl::StrCat(url.host, ":", url.port);
  return absl::InvalidArgumentError(
      absl::StrCat("this server does not fetch URLs of ", host,
                   ", since its operator has not allowed that host "
                   "(--input-url-host); send the file as a part of a multipart/form-data body, or as a data: URL"));
}

}  // namespace kinora

#include "server/gateway/origin_check.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kinora {
namespace {

std::string Lower(std::string_view text) { return absl::AsciiStrToLower(absl::string_view(text.data(), text.size())); }

// Returns the host of "host", "host:port" or "[v6]:port", brackets included; "" if it is malformed.
std::string HostOf(std::string_view authority) {
  const bool bracketed = !authority.empty() && authority[0] == '[';
  const size_t from = bracketed ? authority.find(']') : 0;
  if (from == std::string_view::npos) return "";
  const size_t colon = authority.find(':', from);
  const std::string_view host = authority.substr(0, colon);
  if (colon != std::string_view::npos) {
    const std::string_view port = authority.substr(colon + 1);
    if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string_view::npos) return "";
  }
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  constexpr std::string_view kAddressCharacters = "0123456789abcdefABCDEF:.";
  const bool form =
      bracketed ? host.size() > 2 && host.back() == ']' &&
                      host.substr(1, host.size() - 2).find_first_not_of(kAddressCharacters) == std::string_view::npos
                : host.find_first_not_of(kNameCharacters) == std::string_view::npos;
  return form ? Lower(host) : "";
}

// 127.0.0.0/8
bool IsLoopback(std::string_view host) {
  const std::vector<std::string> parts = absl::StrSplit(absl::string_view(host.data(), host.size()), '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  for (const std::string& part : parts) {
    int number = 0;
    if (part.size() > 3 || !absl::SimpleAtoi(part, &number) || number < 0 || number > 255) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<OriginCheck> OriginCheck::Make(const std::vector<std::string>& hosts) {
  OriginCheck check;
  for (const std::string& host : hosts) {
    if (HostOf(host).empty() || HostOf(host) != Lower(host)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--host ", host, ": must be a name or address without a port, such as clips.example or [2001:db8::1]"));
    }
    check.hosts_.insert(Lower(host));
  }
  return check;
}

bool OriginCheck::KnownHost(std::string_view host, std::string_view local_host) const {
  if (host.empty()) return false;
  return host == "localhost" || host == "[::1]" || IsLoopback(host) || host == local_host ||
         hosts_.count(std::string(host)) > 0;
}

std::optional<HttpProblem> OriginCheck::Check(const HttpRequestHead& head, std::string_view local_host) const {
  const std::string* authority = head.Find("host");
  if (authority == nullptr || !KnownHost(HostOf(*authority), local_host)) {
    return HttpProblem{421, "unknown_host",
                       absl::StrCat("Host ", authority == nullptr ? "" : *authority,
                                    " is not a name of this server; start kinora-gateway with --host for each name by "
                                    "which clients reach it")};
  }
  if (head.method == "GET" || head.method == "HEAD" || head.method == "OPTIONS") return std::nullopt;
  const std::string* site = head.Find("sec-fetch-site");
  if (site != nullptr && *site != "same-origin" && *site != "none") {
    return HttpProblem{403, "foreign_origin", "a page of another site may not send this request"};
  }
  const std::string* origin = head.Find("origin");
  if (origin == nullptr) return std::nullopt;
  const size_t scheme = origin->find("://");
  const bool own = scheme != std::string::npos && Lower(origin->substr(scheme + 3)) == Lower(*authority);
  if (own) return std::nullopt;
  return HttpProblem{403, "foreign_origin",
                     absl::StrCat("Origin ", *origin,
                                  " is not this server; a page of another site may not send this "
                                  "request")};
}

}  // namespace kinora

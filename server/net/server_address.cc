#include "server/net/server_address.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kinora {
namespace {

// Splits host and port, both possibly empty. A host in brackets or with several colons is an IPv6 address.
std::pair<absl::string_view, absl::string_view> SplitPort(absl::string_view text) {
  const bool bracketed = absl::StartsWith(text, "[");
  const size_t from = bracketed ? std::min(text.size(), text.find(']')) : 0;
  const size_t colon = text.find(':', from);
  const bool bare_ipv6 = !bracketed && std::count(text.begin(), text.end(), ':') > 1;
  if (bare_ipv6 || colon == absl::string_view::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

struct Explained {
  std::string text;
  bool mistaken = false;
};

struct Cause {
  absl::string_view part;  // of gRPC's message
  absl::string_view words;
  bool mistaken;
};

constexpr char kClosed[] =
    " accepts connections and closes them, as a server that requires TLS does; try --tls, or --tls-ca FILE with its "
    "certificate authority";

constexpr Cause kCauses[] = {
    {"http1.x server",
     " speaks HTTP/1, not gRPC; it may be the port for metrics and probes (http_address, 8480 by default). The API has "
     "its own port (address, 8470 by default)",
     true},
    {"Connection refused", ": nothing listens on this address; is kinora-frontend running?", false},
    {"No such file or directory",
     ": no such socket; is kinora-frontend running, and is the path relative to the current folder?", false},
    {"wrong version number", " does not use TLS; omit --tls, --tls-ca and https://", true},
    {"Handshake read failed", " does not use TLS; omit --tls, --tls-ca and https://", true},
    {"certificate verify failed",
     ": its certificate is not signed by an authority in --tls-ca (or trusted by this system)", true},
    {"Socket closed", kClosed, false},
    {"Connection reset by peer", kClosed, false},
    {"SETTINGS frame",
     " accepts connections but does not speak gRPC; it may be another program's port, or a server that requires TLS "
     "(--tls, --tls-ca)",
     false},
};

Explained Explain(const std::string& message) {
  // "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:8470: Failed to connect to remote host:
  // Connection refused"
  const std::vector<std::string> parts = absl::StrSplit(message, ": ");
  if (parts.size() >= 3 && absl::StartsWith(message, "DNS resolution failed for ")) {
    return {absl::StrCat(absl::StripPrefix(parts[0], "DNS resolution failed for "), ": host not found"),
            absl::StrContains(message, "Domain name not found")};
  }
  if (parts.size() < 4 || !absl::EndsWith(parts[0], "last error")) return {message};
  const std::string where = absl::StrReplaceAll(parts[2], {{"ipv4:", ""}, {"ipv6:", ""}, {"%5B", "["}, {"%5D", "]"}});
  const std::string why = absl::StrJoin(parts.begin() + 3, parts.end(), ": ");
  for (const Cause& cause : kCauses) {
    if (absl::StrContains(why, cause.part)) return {absl::StrCat(where, cause.words), cause.mistaken};
  }
  return {absl::StrCat(where, ": ", why)};
}

}  // namespace

absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text, int default_port) {
  if (text == "unix:") return absl::InvalidArgumentError("needs a path: unix:PATH");
  for (absl::string_view scheme : {"unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:"}) {
    if (!absl::StartsWith(text, scheme)) continue;
    return ServerAddress{.target = std::string(text), .plain = absl::StartsWith(scheme, "unix")};
  }
  ServerAddress address;
  absl::string_view rest = text;
  address.tls = absl::ConsumePrefix(&rest, "https://");
  if (!address.tls) address.plain = absl::ConsumePrefix(&rest, "http://");
  if (absl::StrContains(rest, "://"))
    return absl::InvalidArgumentError("must be host:port, http://, https:// or unix:PATH");
  absl::ConsumeSuffix(&rest, "/");
  if (rest.empty()) return absl::InvalidArgumentError("is empty; give host:port or unix:PATH");
  if (absl::StrContains(rest, '/')) {
    return absl::InvalidArgumentError("a server address has no path; for a socket use unix:PATH");
  }
  auto [host, port] = SplitPort(rest);
  int number = default_port;
  if (!port.empty() && (!absl::SimpleAtoi(port, &number) || number < 1 || number > 65535)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", port, "\" is not a port, 1 to 65535"));
  }
  if (number == 0) return absl::InvalidArgumentError("needs a port: host:port");
  const bool bare_ipv6 = !absl::StartsWith(host, "[") && absl::StrContains(host, ':');
  address.target =
      absl::StrCat(bare_ipv6 ? "[" : "", host.empty() ? "127.0.0.1" : host, bare_ipv6 ? "]" : "", ":", number);
  return address;
}

std::string ExplainUnreachable(const std::string& message) { return Explain(message).text; }

bool IsMistakenAddress(const std::string& message) { return Explain(message).mistaken; }

}  // namespace kinora

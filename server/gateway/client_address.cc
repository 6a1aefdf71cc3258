#include "server/gateway/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kinora {
namespace {

using Bytes = std::array<uint8_t, 16>;

constexpr size_t kMappedBytes = 12;  // of an IPv4 address's prefix, ::ffff:0:0/96
constexpr char kForwarded[] = "x-forwarded-for";

SocketAddress ToAddress(const Bytes& bytes) {
  SocketAddress address;
  auto* name = reinterpret_cast<sockaddr_in6*>(&address.storage);
  name->sin6_family = AF_INET6;
  std::memcpy(&name->sin6_addr, bytes.data(), bytes.size());
  address.size = sizeof(*name);
  return address;
}

std::optional<Bytes> ToBytes(const SocketAddress& address) {
  Bytes bytes{};
  if (address.storage.ss_family == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, bytes.size());
    return bytes;
  }
  if (address.storage.ss_family != AF_INET) return std::nullopt;
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(&bytes[kMappedBytes], &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, 4);
  return bytes;
}

std::optional<Bytes> ParseAddress(absl::string_view text) {
  const std::string whole(text);
  SocketAddress address;
  if (inet_pton(AF_INET, whole.c_str(), &reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr) == 1) {
    address.storage.ss_family = AF_INET;
    return ToBytes(address);
  }
  Bytes bytes;
  if (inet_pton(AF_INET6, whole.c_str(), bytes.data()) == 1) return bytes;
  return std::nullopt;
}

bool IsPortOrNothing(absl::string_view text) {  // "", ":80"
  return text.empty() || (text.size() > 1 && text[0] == ':' && text.find_first_not_of("0123456789", 1) == text.npos);
}

// Parses an element of X-Forwarded-For, to which some proxies add the port: "10.0.0.1:80", "[::1]:80".
std::optional<Bytes> ParseForwarded(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t end = text.find(']');
    if (end == text.npos || !IsPortOrNothing(text.substr(end + 1))) return std::nullopt;
    return ParseAddress(text.substr(0, end));
  }
  const size_t colon = text.find(':');
  if (colon == text.npos || colon != text.rfind(':')) return ParseAddress(text);
  return IsPortOrNothing(text.substr(colon)) ? ParseAddress(text.substr(0, colon)) : std::nullopt;
}

}  // namespace

std::string ClientAddress(const SocketAddress& peer) {
  SocketAddress client = peer;
  if (client.storage.ss_family == AF_INET6) {
    auto& bytes = reinterpret_cast<sockaddr_in6*>(&client.storage)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&bytes) && !IN6_IS_ADDR_LOOPBACK(&bytes)) std::memset(&bytes.s6_addr[8], 0, 8);
  }
  return client.Host();
}

absl::StatusOr<TrustedProxies> TrustedProxies::Parse(const std::vector<std::string>& texts) {
  TrustedProxies proxies;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
    const std::optional<Bytes> first = ParseAddress(parts.first);
    const bool v4 = first.has_value() && !absl::StrContains(parts.first, ":");
    int bits = v4 ? 32 : 128;
    const bool numeric = parts.second.find_first_not_of("0123456789") == std::string::npos;
    const bool whole = !absl::StrContains(text, "/");
    const int most = bits;
    if (!first.has_value() || (!whole && (!numeric || !absl::SimpleAtoi(parts.second, &bits))) || bits > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("--trusted-proxy \"", text, "\" is neither an IP address nor a range such as 10.0.0.0/8"));
    }
    proxies.ranges_.push_back({*first, v4 ? bits + 96 : bits});
  }
  return proxies;
}

bool TrustedProxies::Contains(const Bytes& address) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    for (int bit = 0; bit < range.bits; bit += 8) {
      const int compared = std::min(8, range.bits - bit);
      const auto mask = static_cast<uint8_t>(0xff << (8 - compared));
      if ((address[bit / 8] & mask) != (range.first[bit / 8] & mask)) return false;
    }
    return true;
  });
}

bool TrustedProxies::Trusts(const SocketAddress& peer) const {
  const std::optional<Bytes> bytes = ToBytes(peer);
  return bytes.has_value() && Contains(*bytes);
}

std::string TrustedProxies::ClientOf(const SocketAddress& peer, const std::vector<HttpField>& fields) const {
  if (!Trusts(peer)) return ClientAddress(peer);
  SocketAddress last = peer;
  for (auto field = fields.rbegin(); field != fields.rend(); ++field) {
    if (!absl::EqualsIgnoreCase(field->name, kForwarded)) continue;
    absl::string_view left = field->value;
    while (true) {
      const size_t comma = left.rfind(',');
      const absl::string_view element = comma == absl::string_view::npos ? left : left.substr(comma + 1);
      const std::optional<Bytes> bytes = ParseForwarded(absl::StripAsciiWhitespace(element));
      if (!bytes.has_value()) return ClientAddress(last);
      last = ToAddress(*bytes);
      if (!Contains(*bytes)) return ClientAddress(last);
      if (comma == absl::string_view::npos) break;
      left = left.substr(0, comma);
    }
  }
  return ClientAddress(last);
}

}  // namespace kinora

#include "server/gateway/public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace kinora {
namespace {

struct Block4 {
  uint32_t first;
  int bits;
};
// The IANA registry of special-purpose addresses, and multicast.
constexpr Block4 kNotPublic4[] = {{0x00000000, 8},   // "this network"
                                  {0x0a000000, 8},   // private
                                  {0x64400000, 10},  // shared with a provider
                                  {0x7f000000, 8},   // loopback
                                  {0xa9fe0000, 16},  // link-local
                                  {0xac100000, 12},  // private
                                  {0xc0000000, 24},  // protocol assignments
                                  {0xc0000200, 24},  // documentation
                                  {0xc0586300, 24},  // 6to4 relays
                                  {0xc0a80000, 16},  // private
                                  {0xc6120000, 15},  // benchmarks
                                  {0xc6336400, 24},  // documentation
                                  {0xcb007100, 24},  // documentation
                                  {0xe0000000, 4},   // multicast
                                  {0xf0000000, 4}};  // reserved, broadcast

bool IsPublic4(uint32_t address) {
  return std::none_of(std::begin(kNotPublic4), std::end(kNotPublic4),
                      [address](const Block4& block) { return (address ^ block.first) >> (32 - block.bits) == 0; });
}

bool IsPublic6(const uint8_t (&address)[16]) {
  const auto begins = [&address](std::initializer_list<uint8_t> bytes) {
    return std::equal(bytes.begin(), bytes.end(), address);
  };
  uint32_t last = 0;
  std::memcpy(&last, address + 12, sizeof(last));
  const bool mapped = begins({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff});
  const bool translated = begins({0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0});
  if (mapped || translated) return IsPublic4(ntohl(last));
  const bool global = (address[0] & 0xe0) == 0x20;                            // 2000::/3
  const bool assignments = begins({0x20, 0x01}) && (address[2] & 0xfe) == 0;  // 2001::/23, with Teredo
  const bool documentation = begins({0x20, 0x01, 0x0d, 0xb8}) || (begins({0x3f, 0xff}) && address[2] < 0x10);
  const bool six_to_four = begins({0x20, 0x02});
  return global && !assignments && !documentation && !six_to_four;
}

}  // namespace

bool IsPublicAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof(v4));
    return IsPublic4(ntohl(v4.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof(v6));
  return IsPublic6(v6.sin6_addr.s6_addr);
}

}  // namespace kinora

// The URLs of inputs that the gateway may fetch, by the list of hosts that its operator allows. The rules do not
// resolve names: input_fetcher.h checks the address that it connects to.
#ifndef KINORA_SERVER_GATEWAY_INPUT_URL_H_
#define KINORA_SERVER_GATEWAY_INPUT_URL_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

struct AllowedHost {
  std::string name;         // in lower case; an IPv6 address is in brackets
  int port = 443;           // the only one
  bool subdomains = false;  // "*.NAME": the names below it, and not the name itself
  bool literal = false;     // the name is an IP address
};

// "media.example", "*.media.example", "10.0.0.5:9000", "[fd00::5]". InvalidArgument says what is wrong.
absl::StatusOr<AllowedHost> ParseAllowedHost(std::string_view text);

struct InputUrl {
  std::string text;  // as it is fetched
  std::string host;  // in lower case; an IPv6 address is in brackets
  int port = 443;
};

// Whether a text is meant as a URL of a server, which may be fetched or not.
bool IsServerUrl(std::string_view text);

// The URL's forms that all parsers read alike: https://HOST[:PORT][/PATH][?QUERY] of printable ASCII, without user
// names,
// "\" and fragments. InvalidArgument with the rest of a sentence about the field.
absl::StatusOr<InputUrl> ParseInputUrl(std::string_view text);

// The URL and the host that allows it. InvalidArgument, also with the rest of a sentence: the URL is malformed or its
// host is not in the list; the message names the flag.
struct AllowedUrl {
  InputUrl url;
  AllowedHost host;
};
absl::StatusOr<AllowedUrl> CheckInputUrl(std::string_view text, const std::vector<AllowedHost>& hosts);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_INPUT_URL_H_

// Which requests a browser may make. A page of another site reaches a server on this machine or network in two ways,
// and both are rejected: under a name that its owner points here (DNS rebinding), by the Host that names the page's
// site; and with a form or script, by its Origin or Sec-Fetch-Site. Programs other than browsers send neither of the
// two.
#ifndef KINORA_SERVER_GATEWAY_ORIGIN_CHECK_H_
#define KINORA_SERVER_GATEWAY_ORIGIN_CHECK_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gateway/http_message.h"

namespace kinora {

class OriginCheck {
 public:
  // `hosts`: names and addresses without port that Host may have besides localhost, the loopback addresses and the
  // address at which the connection arrived. InvalidArgument: one is empty or has a port, a blank or a path.
  static absl::StatusOr<OriginCheck> Make(const std::vector<std::string>& hosts);

  // local_host: the address at which the connection arrived, without port ("127.0.0.1", "[::1]"); "unix:" for a Unix
  // socket. Returns nullopt if the request may go on; otherwise 421 (Host) or 403 (Origin, for methods other than GET,
  // HEAD and OPTIONS).
  std::optional<HttpProblem> Check(const HttpRequestHead& head, std::string_view local_host) const;

 private:
  bool KnownHost(std::string_view host, std::string_view local_host) const;

  std::set<std::string> hosts_;  // lower case
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_ORIGIN_CHECK_H_

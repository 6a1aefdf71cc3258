#include "server/worker/join_home.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr int kMostHops = 2;                        // a home that was just lost may redirect once more
constexpr absl::Duration kDial = absl::Seconds(3);  // for one of several frontends
constexpr absl::Duration kPause = absl::Seconds(1);

// "host:port" without the port, and without the brackets of an IPv6 address.
std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) host = host.substr(1, host.size() - 2);
  return host;
}

bool IsIpAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Follows redirects from `target`, which has one address. `hops`: the number of those followed.
absl::StatusOr<JoinedFrontend> Follow(JoinTarget target, const v1::Hello& hello, absl::Duration dial, Clock& steady,
                                      int& hops) {
  const std::string first = HostOf(target.address);
  for (hops = 0;; ++hops) {
    KINORA_ASSIGN_OR_RETURN(auto client, JoinClient::Join(target, hello, hops == 0 ? dial : kDial, steady));
    if (!client->welcome().has_redirect()) return JoinedFrontend{std::move(client), target.address};
    const std::string next = client->welcome().redirect().address();
    if (hops == kMostHops) {
      return absl::UnavailableError(
          absl::StrCat("frontend: ", target.address, " redirects to ", next, " after ", kMostHops, " redirects"));
    }
    Log(Severity::kInfo, "redirected", {{"from", target.address}, {"to", next}});
    target.address = next;
    target.certified_name = IsIpAddress(HostOf(next)) && !IsIpAddress(first) ? first : "";
  }
}

}  // namespace

absl::StatusOr<JoinedFrontend> JoinHome(const JoinTarget& target, const v1::Hello& hello, absl::Duration patience,
                                        Clock& steady) {
  const std::vector<std::string> addresses = absl::StrSplit(target.address, ',');
  const absl::Time end = steady.Now() + patience;
  absl::Mutex mu;
  bool never = false;
  for (size_t turn = 0;; ++turn) {
    JoinTarget one = target;
    one.address = addresses[turn % addresses.size()];
    int hops = 0;
    absl::StatusOr<JoinedFrontend> joined =
        Follow(one, hello, addresses.size() > 1 ? std::min(kDial, patience) : patience, steady, hops);
    const bool others = addresses.size() > 1 || hops > 0;
    if (joined.ok() || !absl::IsUnavailable(joined.status()) || !others || steady.Now() >= end) return joined;
    Log(Severity::kInfo, "join_again", {{"why", std::string(joined.status().message())}});
    absl::MutexLock lock(&mu);
    steady.AwaitUntil(mu, absl::Condition(&never), steady.Now() + kPause);
  }
}

}  // namespace kinora

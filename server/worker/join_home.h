// How a worker finds the frontend that its group joins: it dials the addresses of its configuration in turn, and
// follows redirects (Welcome.redirect) to the group's home.
#ifndef KINORA_SERVER_WORKER_JOIN_HOME_H_
#define KINORA_SERVER_WORKER_JOIN_HOME_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/join_client.h"

namespace kinora {

struct JoinedFrontend {
  std::unique_ptr<JoinClient> client;
  std::string address;
};

// target: its address may be several, separated by commas. A frontend at an IP address to which a rank is redirected
// needs a certificate for the name that the rank dialled first, if that was a name, so that frontends behind one name
// can share a certificate. Fails as JoinClient::Join. If there are several addresses, or a redirect was followed,
// unavailable frontends are dialled again for as long as `patience`.
absl::StatusOr<JoinedFrontend> JoinHome(const JoinTarget& target, const v1::Hello& hello, absl::Duration patience,
                                        Clock& steady = Clock::Steady());

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_JOIN_HOME_H_

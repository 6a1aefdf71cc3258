// Decides who may join this frontend as a worker, before its rank in its group is checked (worker_group.h):
//   every rank       uses this frontend's protocol. Its commit may differ, so that the frontend and the groups that are
//                    started outside can be upgraded one after the other
//   a supervised one has the secret of the incarnation that the supervisor started, and this frontend's commit
//   another          has no secret. At the join port it has shown a token or a certificate instead and belongs to a
//                    group that this frontend awaits; on the local socket it may belong to any group
#ifndef KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_
#define KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/build_version.h"

namespace kinora {

enum class Entrance { kLocalSocket, kJoinPort };  // the server that a rank connects to: join_service.h

class JoinRules {
 public:
  explicit JoinRules(BuildIdentity frontend) : frontend_(std::move(frontend)) {}

  // Sets the present incarnation of a supervised group. With an empty secret nobody may join.
  void Supervise(const std::string& group, const std::string& incarnation, const std::string& secret);

  // Expects `processes` ranks of a group that is started outside.
  void Await(const std::string& group, int processes) { awaited_[group] = processes; }

  // InvalidArgument: the Hello exceeds 4 KiB. PermissionDenied: the supervisor did not start the process, no supervisor
  // issued the secret, or nobody awaits the group. FailedPrecondition, with both sides' values and a remedy: the
  // protocol, commit or number of ranks differs. Secrets are compared in constant time.
  absl::Status Check(const v1::Hello& hello, Entrance entrance) const;
  const std::map<std::string, int>& awaited() const { return awaited_; }  // processes by group

 private:
  struct Incarnation {
    std::string name, secret;
  };
  absl::Status CheckStartedOutside(const v1::Hello& hello, Entrance entrance) const;

  const BuildIdentity frontend_;
  std::map<std::string, Incarnation> supervised_;  // by group
  std::map<std::string, int> awaited_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_

// Who may join this frontend as a worker, before it is asked which rank of which group it is (worker_group.h):
//   every rank       speaks this frontend's protocol. Its commit may be another, so that frontend and groups that
//                    somebody else starts are upgraded one after the other
//   a supervised one knows the secret of the incarnation that the supervisor started, and is of the frontend's commit
//   another          has no secret. At the join port it has shown a token or a certificate instead, and is of a group
//                    that this frontend awaits; on the local socket it may be of any
#ifndef KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_
#define KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/build_version.h"

namespace kinora {

enum class Entrance { kLocalSocket, kJoinPort };  // of a rank: join_service.h

class JoinRules {
 public:
  explicit JoinRules(BuildIdentity frontend) : frontend_(std::move(frontend)) {}

  // The group is a supervisor's, and these are of its present incarnation. An empty secret: nobody may join.
  void Supervise(const std::string& group, const std::string& incarnation, const std::string& secret);

  // Somebody else starts the `processes` ranks of the group.
  void Await(const std::string& group, int processes) { awaited_[group] = processes; }

  // PermissionDenied: not a process that the supervisor started, a secret that nobody gave, or a group that nobody
  // awaits. FailedPrecondition, with both sides' values and what to do: another protocol, commit or number of ranks.
  // Secrets are compared in constant time.
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

// Who may join this frontend as a worker, before it is asked which rank of which group it is (worker_group.h):
//   every rank       speaks this frontend's protocol. Its commit may be another, so that frontend and groups that
//                    somebody else starts are upgraded one after the other
//   a supervised one knows the secret of the incarnation that the supervisor started, and is of the frontend's commit
//   another          has no secret
#ifndef KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_
#define KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/build_version.h"

namespace kinora {

class JoinRules {
 public:
  explicit JoinRules(BuildIdentity frontend) : frontend_(std::move(frontend)) {}

  // The group is a supervisor's, and these are of its present incarnation. An empty secret: nobody may join.
  void Supervise(const std::string& group, const std::string& incarnation, const std::string& secret);

  // PermissionDenied: not a process that the supervisor started, or a secret that nobody gave. FailedPrecondition, with
  // both sides' values and what to do: another protocol or commit. Secrets are compared in constant time.
  absl::Status Check(const v1::Hello& hello) const;

 private:
  struct Incarnation {
    std::string name, secret;
  };
  const BuildIdentity frontend_;
  std::map<std::string, Incarnation> supervised_;  // by group
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_JOIN_RULES_H_

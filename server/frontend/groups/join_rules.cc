#include "server/frontend/groups/join_rules.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/common/secret.h"

namespace kinora {
namespace {

constexpr size_t kMostHelloBytes = 4096;

std::string OrNone(const std::string& value) { return value.empty() ? "none" : value; }

}  // namespace

void JoinRules::Supervise(const std::string& group, const std::string& incarnation, const std::string& secret) {
  supervised_[group] = {.name = incarnation, .secret = secret};
}

absl::Status JoinRules::CheckStartedOutside(const v1::Hello& hello, Entrance entrance) const {
  if (!hello.secret().empty()) {
    return absl::PermissionDeniedError(absl::StrCat("secret: this frontend does not supervise group ", hello.group(),
                                                    "; only the frontend that issued the secret can start it"));
  }
  const auto awaited = awaited_.find(hello.group());
  if (awaited == awaited_.end()) {
    if (entrance == Entrance::kLocalSocket) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("group: this frontend expects no outside group \"", hello.group(),
                                                    "\"; add it to the frontend's groups with outside: true"));
  }
  if (hello.world_size() == awaited->second) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("world_size: group ", hello.group(), " has ", awaited->second,
                                                    " processes in the frontend's configuration, but ",
                                                    hello.world_size(), " in the worker's"));
}

absl::Status JoinRules::Check(const v1::Hello& hello, Entrance entrance) const {
  if (hello.ByteSizeLong() > kMostHelloBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("hello: ", hello.ByteSizeLong(), " bytes; at most ", kMostHelloBytes, " are allowed"));
  }
  const auto supervised = supervised_.find(hello.group());
  const bool is_supervised = supervised != supervised_.end();
  if (is_supervised) {
    const Incarnation& present = supervised->second;
    if (present.secret.empty() || hello.incarnation() != present.name || !SameSecret(hello.secret(), present.secret)) {
      return absl::PermissionDeniedError(
          absl::StrCat("secret: group ", hello.group(),
                       " is supervised by this frontend, which did not start this process; join as a different group"));
    }
  } else if (const absl::Status status = CheckStartedOutside(hello, entrance); !status.ok()) {
    return status;
  }
  if (hello.protocol() != frontend_.protocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("protocol: the frontend uses ", OrNone(absl::BytesToHexString(frontend_.protocol)), " (commit ",
                     frontend_.commit, "), the worker ", OrNone(absl::BytesToHexString(hello.protocol())), " (commit ",
                     OrNone(hello.commit()), "); upgrade the older one"));
  }
  if (is_supervised && hello.commit() != frontend_.commit) {
    return absl::FailedPreconditionError(absl::StrCat("commit: this frontend is built from ", frontend_.commit,
                                                      ", but the worker that it starts (worker_binary) from ",
                                                      OrNone(hello.commit()),
                                                      "; install both from one build and restart the frontend"));
  }
  return absl::OkStatus();
}

}  // namespace kinora

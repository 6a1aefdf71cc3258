// The groups of all frontends as one list.
#ifndef KINORA_SERVER_FRONTEND_PEERS_GROUP_LISTS_H_
#define KINORA_SERVER_FRONTEND_PEERS_GROUP_LISTS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Sets `frontend` of the groups that this frontend has: all but those of `awaited` that are not here.
void NameFrontend(const std::string& frontend, const std::set<std::string>& awaited,
                  std::vector<v1::WorkerGroup>& groups);

// Joins the lists of several frontends, sorted by group. A group that one frontend has and others await is listed once,
// as is one that all await; of these, a lost one takes precedence.
std::vector<v1::WorkerGroup> JoinGroupLists(const std::vector<std::vector<v1::WorkerGroup>>& lists);

// Returns the frontend of the only group with this ID; "": this one. FailedPrecondition: several frontends have one.
// NotFound: there is none. Unavailable: there is none, but a frontend does not list its groups.
absl::StatusOr<std::string> FrontendOfGroup(const std::vector<v1::WorkerGroup>& groups, const std::string& id);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_PEERS_GROUP_LISTS_H_

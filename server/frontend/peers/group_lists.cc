#include "server/frontend/peers/group_lists.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kinora {

void NameFrontend(const std::string& frontend, const std::set<std::string>& awaited,
                  std::vector<v1::WorkerGroup>& groups) {
  for (v1::WorkerGroup& group : groups) {
    const bool absent = group.state() == "lost" || group.ranks().empty();
    if (!absent || !awaited.contains(group.id())) group.set_frontend(frontend);
  }
}

std::vector<v1::WorkerGroup> JoinGroupLists(const std::vector<std::vector<v1::WorkerGroup>>& lists) {
  std::vector<v1::WorkerGroup> joined;
  std::set<std::string> had;                       // by a frontend
  std::map<std::string, v1::WorkerGroup> awaited;  // by ID
  for (const std::vector<v1::WorkerGroup>& list : lists) {
    for (const v1::WorkerGroup& group : list) {
      if (!group.frontend().empty()) {
        had.insert(group.id());
        joined.push_back(group);
        continue;
      }
      const auto [known, is_new] = awaited.try_emplace(group.id(), group);
      if (!is_new && known->second.state() != "lost") known->second = group;
    }
  }
  for (const auto& [id, group] : awaited) {
    if (!had.contains(id)) joined.push_back(group);
  }
  std::sort(joined.begin(), joined.end(), [](const v1::WorkerGroup& a, const v1::WorkerGroup& b) {
    return std::tie(a.id(), a.frontend()) < std::tie(b.id(), b.frontend());
  });
  return joined;
}

absl::StatusOr<std::string> FrontendOfGroup(const std::vector<v1::WorkerGroup>& groups, const std::string& id) {
  std::vector<std::string> frontends;
  std::string why;  // a frontend lists no groups
  for (const v1::WorkerGroup& group : groups) {
    if (group.id() == id) frontends.push_back(group.frontend());
    if (group.id().empty()) why = absl::StrCat(group.frontend(), ": ", group.reason());
  }
  if (frontends.empty() && !why.empty()) {
    return absl::UnavailableError(absl::StrCat("id: no frontend that answers has group \"", id, "\"; ", why));
  }
  if (frontends.empty()) return absl::NotFoundError(absl::StrCat("id: no worker group \"", id, "\" exists"));
  if (frontends.size() == 1) return frontends.front();
  return absl::FailedPreconditionError(absl::StrCat("frontend: several frontends have a group \"", id, "\"; set it to ",
                                                    absl::StrJoin(frontends, " or ")));
}

}  // namespace kinora

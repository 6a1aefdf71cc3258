#include "server/frontend/groups/group_homes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
constexpr absl::Duration kTryAgain = absl::Seconds(2);

absl::Status Unavailable(const std::string& why) { return WithRetryInfo(absl::UnavailableError(why), kTryAgain); }

}  // namespace

GroupHomes::GroupHomes(SharedFrontendRecords& records, GroupHomesOptions options, std::unique_ptr<Executor> loop)
    : records_(records), options_(std::move(options)), loop_(std::move(loop)) {
  loop_->PostAt(loop_->Now() + kInterval, [this] { Check(); });
}

void GroupHomes::Find(const std::string& group, Done<std::string> done) {
  if (!options_.awaited.contains(group)) return done("");
  loop_->Post([this, group, done = std::move(done)]() mutable {
    if (draining_) return done(Unavailable("the frontend is stopping"));
    ++arrivals_[group].open;
    records_.ClaimHome(group, options_.frontend,
                       [this, group, done = std::move(done)](absl::StatusOr<GroupHome> home) mutable {
                         loop_->Post([this, group, home = std::move(home), done = std::move(done)]() mutable {
                           OnClaimed(group, std::move(home), std::move(done));
                         });
                       });
  });
}

void GroupHomes::OnClaimed(const std::string& group, absl::StatusOr<GroupHome> home, Done<std::string> done) {
  Arrivals& arrivals = arrivals_[group];
  --arrivals.open;
  arrivals.last = loop_->Now();
  if (!home.ok()) {
    return done(Unavailable(
        absl::StrCat("the home of group ", group, " cannot be looked up: ", std::string(home.status().message()))));
  }
  if (home->frontend == options_.frontend.id) return done("");
  if (arrivals.open == 0) arrivals_.erase(group);
  if (home->join_address.empty()) {
    return done(
        Unavailable(absl::StrCat("group ", group, " has joined another frontend, which advertises no join_address")));
  }
  done(std::move(home->join_address));
}

void GroupHomes::IsElsewhere(const std::string& group, Done<bool> done) {
  records_.FindHome(group,
                    [id = options_.frontend.id, done = std::move(done)](const absl::StatusOr<GroupHome>& home) mutable {
                      if (!home.ok()) return done(home.status());
                      done(!home->frontend.empty() && home->frontend != id);
                    });
}

void GroupHomes::BeginDrain() {
  loop_->Post([this] { draining_ = true; });
}

void GroupHomes::Check() {
  loop_->PostAt(loop_->Now() + kInterval, [this] { Check(); });
  if (arrivals_.empty()) return;
  options_.list([this](absl::StatusOr<std::vector<v1::WorkerGroup>> groups) {
    loop_->Post([this, groups = *std::move(groups)] { LeaveThoseThatAreGone(groups); });
  });
}

// A claim that follows is made after the row is given up, since the store keeps the order of these calls.
void GroupHomes::LeaveThoseThatAreGone(const std::vector<v1::WorkerGroup>& groups) {
  const absl::Time now = loop_->Now();
  for (auto it = arrivals_.begin(); it != arrivals_.end();) {
    const std::string& id = it->first;
    const bool here = std::any_of(groups.begin(), groups.end(), [&id](const v1::WorkerGroup& group) {
      return group.id() == id && group.state() != "lost" && !group.ranks().empty();
    });
    Arrivals& arrivals = it->second;
    if (here || arrivals.open > 0) arrivals.last = now;
    if (now - arrivals.last < (draining_ ? kInterval : options_.patience)) {
      ++it;
      continue;
    }
    Log(Severity::kInfo, "group_home_left", {{"group", id}});
    records_.LeaveHome(id, options_.frontend.id, [](const absl::Status&) {});  // else ranks keep coming here
    it = arrivals_.erase(it);
  }
}

}  // namespace kinora

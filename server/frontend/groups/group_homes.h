// Where the ranks of a group join, among frontends that share a store: all at one of them, the group's home. The
// frontend at which a rank arrives first becomes it, and stays it while the group is there, or its ranks keep coming
// back.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_GROUP_HOMES_H_
#define KINORA_SERVER_FRONTEND_GROUPS_GROUP_HOMES_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/shared_frontends.h"
#include "server/net/executor.h"

namespace kinora {

struct GroupHomesOptions {
  FrontendEntry frontend;
  std::set<std::string> awaited;                                 // groups that may join here
  std::function<void(Done<std::vector<v1::WorkerGroup>>)> list;  // Dispatcher::ListGroups
  absl::Duration patience = absl::Seconds(10);                   // for ranks of a lost group to come back
};

class GroupHomes {
 public:
  // records: not owned; flush them after Stop. loop: for all that happens here.
  GroupHomes(SharedFrontendRecords& records, GroupHomesOptions options, std::unique_ptr<Executor> loop);
  ~GroupHomes() { Stop(); }
  void Stop() { loop_->Stop(); }

  // A rank of the group has arrived. Returns the address at which it must join instead; "": it joins here. A group that
  // is not awaited joins here, and the dispatcher rejects it. Unavailable: the database cannot be reached, the home has
  // no address, or this frontend is draining. Any thread; `done` runs on the loop or on a thread of the store.
  void Find(const std::string& group, Done<std::string> done);
  // Whether another frontend has the group. Any thread.
  void IsElsewhere(const std::string& group, Done<bool> done);
  // From now on this frontend takes no group, and leaves its groups as soon as their ranks have gone. Any thread.
  void BeginDrain();

 private:
  void OnClaimed(const std::string& group, absl::StatusOr<GroupHome> home, Done<std::string> done);
  void Check();
  void LeaveThoseThatAreGone(const std::vector<v1::WorkerGroup>& groups);

  SharedFrontendRecords& records_;
  const GroupHomesOptions options_;
  struct Arrivals {  // of ranks of a group whose home this is
    absl::Time last{};
    int open = 0;  // for which the store has not answered yet
  };
  std::map<std::string, Arrivals> arrivals_;  // by group
  bool draining_ = false;
  const std::unique_ptr<Executor> loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_GROUP_HOMES_H_

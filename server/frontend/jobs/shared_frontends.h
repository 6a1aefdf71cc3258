// The frontends that share a store, and which of them is the home of each group of workers: the one that all ranks of
// the group join. store_call.h says how it is called.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SHARED_FRONTENDS_H_
#define KINORA_SERVER_FRONTEND_JOBS_SHARED_FRONTENDS_H_

#include <string>
#include <vector>

#include "server/frontend/jobs/frontend_records.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

struct GroupHome {
  FrontendId frontend;         // "": none
  std::string join_address{};  // FrontendEntry::join_address
};

class SharedFrontendRecords {
 public:
  virtual ~SharedFrontendRecords() = default;

  // Sorted by the last renewal of the lease, newest first.
  virtual void LivingFrontends(Done<std::vector<FrontendEntry>> done) = 0;

  // The frontend ends, and nothing is left that only it has.
  virtual void RemoveFrontend(const FrontendId& id, Finished done) = 0;

  // Makes `frontend` the home of the group, unless another one is that lives. A frontend at the same join address does
  // not: it was replaced by this one. Returns the home.
  virtual void ClaimHome(const std::string& group, const FrontendEntry& frontend, Done<GroupHome> done) = 0;
  // The group has left. Does nothing if another frontend is its home.
  virtual void LeaveHome(const std::string& group, const FrontendId& frontend, Finished done) = 0;
  // A frontend that lives, or none.
  virtual void FindHome(const std::string& group, Done<GroupHome> done) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SHARED_FRONTENDS_H_

// Stores which frontends use the store, and which of them holds the client of a job that ends with its client's stream
// (created with detach = false). store_call.h says how it is called.
#ifndef KINORA_SERVER_FRONTEND_JOBS_FRONTEND_RECORDS_H_
#define KINORA_SERVER_FRONTEND_JOBS_FRONTEND_RECORDS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

class FrontendRecords {
 public:
  virtual ~FrontendRecords() = default;

  // Stores that frontend `id`, whose clients reach it at `address`, lives; for as long as `lease`.
  virtual void PutFrontend(const FrontendId& id, const std::string& address, absl::Duration lease, Finished done) = 0;
  // Ends the leases of all other frontends and of their attempts at jobs. Only for a frontend that has proof that the
  // others are gone.
  virtual void EndOtherLeases(const FrontendId& id, Finished done) = 0;
  // Returns the unfinished jobs whose client was held by a frontend that lives no longer. From now on it is `id` that
  // holds their clients, so each is returned to one frontend.
  virtual void TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_FRONTEND_RECORDS_H_

// Stores which frontends use the store, and which of them holds the client of a job that ends with its client's stream
// (created with detach = false). store_call.h says how it is called.
#ifndef KINORA_SERVER_FRONTEND_JOBS_FRONTEND_RECORDS_H_
#define KINORA_SERVER_FRONTEND_JOBS_FRONTEND_RECORDS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

struct FrontendEntry {
  FrontendId id;
  std::string address{};       // where its clients reach it, for people
  std::string peer_address{};  // where other frontends call it; "": nowhere
  std::string join_address{};  // to which others send ranks that must join it; "": they cannot
};

class FrontendRecords {
 public:
  virtual ~FrontendRecords() = default;

  // Stores that the frontend lives; for as long as `lease`. Where frontends do not share the store, its addresses for
  // others are not kept.
  virtual void PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) = 0;
  // Ends the leases of all other frontends and of their attempts at jobs. Only for a frontend that has proof that the
  // others are gone.
  virtual void EndOtherLeases(const FrontendId& id, Finished done) = 0;
  // Returns the unfinished jobs whose client was held by a frontend that lives no longer. From now on it is `id` that
  // holds their clients, so each is returned to one frontend.
  virtual void TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_FRONTEND_RECORDS_H_

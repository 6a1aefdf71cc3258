// The frontends in a PostgreSQL database, their clients and their groups.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_FRONTENDS_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_FRONTENDS_H_

#include <string>
#include <vector>

#include "server/frontend/jobs/frontend_records.h"
#include "server/frontend/jobs/shared_clients.h"
#include "server/frontend/jobs/shared_frontends.h"
#include "server/frontend/postgres/sql_pool.h"

namespace kinora {

class PostgresFrontendRecords : public FrontendRecords, public SharedClientRecords, public SharedFrontendRecords {
 public:
  explicit PostgresFrontendRecords(SqlPool& pool) : pool_(pool) {}

  void PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) override;
  void EndOtherLeases(const FrontendId& id, Finished done) override;
  void TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) override;

  void OfferClient(const JobId& job, const FrontendId& id, Done<bool> done) override;
  void EndOffer(const JobId& job, const FrontendId& id, Done<bool> done) override;
  void TakeOffered(const std::vector<JobId>& jobs, const FrontendId& id, Done<std::vector<JobId>> done) override;

  void LivingFrontends(Done<std::vector<FrontendEntry>> done) override;
  void RemoveFrontend(const FrontendId& id, Finished done) override;
  void ClaimHome(const std::string& group, const FrontendEntry& frontend, Done<GroupHome> done) override;
  void LeaveHome(const std::string& group, const FrontendId& frontend, Finished done) override;
  void FindHome(const std::string& group, Done<GroupHome> done) override;

 private:
  // Runs a change of jobs whose statement returns their IDs.
  void Change(const char* sql, SqlValues values, Done<std::vector<JobId>> done);

  SqlPool& pool_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_FRONTENDS_H_

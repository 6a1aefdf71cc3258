// FrontendRecords in a SQLite file, next to the jobs.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_FRONTEND_RECORDS_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_FRONTEND_RECORDS_H_

#include <vector>

#include "engine/base/clock.h"
#include "server/frontend/jobs/frontend_records.h"
#include "server/frontend/jobs/sqlite_file.h"

namespace kinora {

class SqliteFrontendRecords : public FrontendRecords {
 public:
  SqliteFrontendRecords(SqliteFile& file, Clock& clock) : file_(file), clock_(clock) {}  // neither is owned

  void PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) override;
  void EndOtherLeases(const FrontendId& id, Finished done) override;
  void TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) override;

 private:
  SqliteFile& file_;
  Clock& clock_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_FRONTEND_RECORDS_H_

// StoreRows of a PostgreSQL database, which no frontend can use meanwhile (postgres_lock.h).
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_STORE_ROWS_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_STORE_ROWS_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/frontend/jobs/store_rows.h"
#include "server/frontend/postgres/postgres_lock.h"
#include "server/frontend/postgres/postgres_schema.h"
#include "server/frontend/postgres/sql_session.h"

namespace kinora {

class PostgresStoreRows : public StoreRows {
 public:
  // use: kCopyFrom or kCopyInto. Errors: as PostgresStores::Open.
  static absl::StatusOr<std::unique_ptr<PostgresStoreRows>> Open(const SqlDriver& driver, const std::string& url,
                                                                 SchemaUse use);

  absl::StatusOr<std::string> LiveFrontend() override;
  absl::StatusOr<std::vector<JobRow>> JobsAfter(int64_t ordinal, int limit) override;
  absl::StatusOr<OtherRows> Others() override;
  absl::StatusOr<int64_t> BeginCopy() override;
  absl::Status PutJobs(const std::vector<JobRow>& jobs) override;
  absl::Status PutOthers(const OtherRows& others) override;
  absl::Status CheckKept() override;
  absl::Status EndCopy() override;

 private:
  explicit PostgresStoreRows(const SqlSessionOptions& options) : session_(options) {}
  absl::Status Write(SqlSession::Apply apply) { return session_.Write(apply, Clock::Steady().Now() + kPatience); }
  absl::Status Read(SqlSession::Apply apply) { return session_.Read(apply, Clock::Steady().Now() + kPatience); }

  static constexpr absl::Duration kPatience = absl::Minutes(1);  // for a database that is away
  const std::shared_ptr<std::atomic<bool>> lost_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<PostgresLock> lock_;
  SqlSession session_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_STORE_ROWS_H_

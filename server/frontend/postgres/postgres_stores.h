// The stores in a PostgreSQL database, which several frontends can share.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_STORES_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_STORES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/frontend/inputs/input_records.h"
#include "server/frontend/jobs/catalogue_store.h"
#include "server/frontend/jobs/job_tables.h"
#include "server/frontend/jobs/table_job_store.h"
#include "server/frontend/postgres/database_figures.h"
#include "server/frontend/postgres/postgres_frontends.h"
#include "server/frontend/postgres/postgres_job_tables.h"
#include "server/frontend/postgres/postgres_lock.h"
#include "server/frontend/postgres/sql_pool.h"

namespace kinora {

struct PostgresOptions {
  const SqlDriver* driver = nullptr;
  std::string url;
  JobRules rules{};
  EventListener listener;
  // For how long after the server's start, or after it was away from this process, leases do not count: a frontend
  // needs as long to renew its own.
  absl::Duration grace = absl::Seconds(30);
  absl::Duration patience = SqlPoolOptions().patience;
  // Asked before each change of a job and after its commit; an error fails the change. Null: always OK.
  std::function<absl::Status()> check_state{};
  Clock* steady = &Clock::Steady();
  // Called once if another frontend has taken the database while it was away (postgres_lock.h). Null: no lock.
  std::function<void()> on_taken{};
  std::string place{};                    // postgres_lock.h
  FrontendMetrics* metrics = nullptr;     // of the database; null: it has none
  DatabaseUse use = DatabaseUse::kAlone;  // Open waits for `lock_patience` while others use it otherwise
  absl::Duration lock_patience = absl::Seconds(30);
};

class PostgresTransactions : public JobTransactions {
 public:
  PostgresTransactions(const PostgresOptions& options, SqlHealth& health);

  void WriteJob(const JobId& id, Room room, absl::AnyInvocable<absl::Status(JobTables&, Events&)> apply,
                Finished done) override;
  void ReadJobs(absl::AnyInvocable<absl::Status(JobTables&)> read, Finished done) override;
  void Flush() override { pool_.Flush(); }

  SqlPool& pool() { return pool_; }

 private:
  PostgresJobTables::Grace Grace() const;

  const absl::Duration grace_;
  const std::function<absl::Status()> check_state_;
  SqlHealth& health_;
  absl::Mutex listening_;  // held while the listener runs
  const EventListener listener_;
  SqlPool pool_;  // last: its threads end before the other members are destroyed
};

class PostgresCatalogueStore : public CatalogueStore {
 public:
  explicit PostgresCatalogueStore(SqlPool& pool) : pool_(pool) {}

  void PutModel(const v1::ModelInfo& model, Finished done) override;
  void Models(Done<std::vector<v1::ModelInfo>> done) override;
  void AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) override;
  void Speeds(const std::string& place, Done<v1::SpeedHistory> done) override;

 private:
  SqlPool& pool_;
};

class PostgresInputRecords : public InputRecords {
 public:
  PostgresInputRecords(SqlPool& pool, bool shared) : pool_(pool), shared_(shared) {}

  void PutInput(const InputRecord& input, Finished done) override;
  void RemoveInput(const std::string& sha256, absl::Time now, Finished done) override;
  void Inputs(Done<std::vector<InputRecord>> done) override;
  void FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) override;
  bool is_shared() const override { return shared_; }

 private:
  SqlPool& pool_;
  const bool shared_;
};

class PostgresStores {
 public:
  // Creates the schema if there is none. Errors: FailedPrecondition (postgres_schema.h, postgres_lock.h), Unavailable
  // (no connection).
  static absl::StatusOr<std::unique_ptr<PostgresStores>> Open(const PostgresOptions& options);
  ~PostgresStores() {
    if (figures_ != nullptr) figures_->Stop();
    transactions_.pool().Stop();  // before what pending calls use is destroyed
  }

  JobStore& jobs() { return jobs_; }
  CatalogueStore& catalogue() { return catalogue_; }
  InputRecords& inputs() { return inputs_; }
  FrontendRecords& frontends() { return frontends_; }
  SharedClientRecords& shared_clients() { return frontends_; }
  SharedFrontendRecords& shared_frontends() { return frontends_; }

  bool is_new() const { return is_new_; }  // had no schema before Open
  absl::Duration Unwritable() const { return health_.Unwritable(); }
  void StopWatching() {  // ends calls of on_taken
    if (lock_ != nullptr) lock_->StopWatching();
  }

 private:
  explicit PostgresStores(const PostgresOptions& options)
      : health_(*options.steady),
        transactions_(options, health_),
        jobs_(transactions_, options.rules),
        inputs_(transactions_.pool(), options.use == DatabaseUse::kShared) {}

  bool is_new_ = false;
  std::unique_ptr<PostgresLock> lock_;  // freed last
  SqlHealth health_;
  PostgresTransactions transactions_;
  TableJobStore jobs_;
  PostgresCatalogueStore catalogue_{transactions_.pool()};
  PostgresInputRecords inputs_;
  PostgresFrontendRecords frontends_{transactions_.pool()};
  std::unique_ptr<DatabaseFigures> figures_;  // may be null
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_POSTGRES_STORES_H_

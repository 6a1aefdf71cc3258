#include "server/frontend/stores.h"

#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/inputs/sqlite_input_records.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_frontend_records.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "server/frontend/jobs/sqlite_store_rows.h"
#include "server/frontend/jobs/state_guard.h"
#include "server/frontend/postgres/postgres_schema.h"
#include "server/frontend/postgres/postgres_store_rows.h"
#include "server/frontend/postgres/postgres_stores.h"
#include "server/frontend/postgres/sql_module.h"

namespace kinora {
namespace {

class SqliteStores : public Stores {
 public:
  ~SqliteStores() override { jobs_->Flush(); }  // before what pending calls use is destroyed

  SqliteStores(std::unique_ptr<SqliteJobStore> jobs, Clock& clock, bool is_new)
      : is_new_(is_new), jobs_(std::move(jobs)), frontends_(jobs_->file(), clock) {}

  JobStore& jobs() override { return *jobs_; }
  CatalogueStore& catalogue() override { return catalogue_; }
  InputRecords& inputs() override { return inputs_; }
  FrontendRecords& frontends() override { return frontends_; }
  SharedClientRecords* shared_clients() override { return nullptr; }
  SharedFrontendRecords* shared_frontends() override { return nullptr; }
  bool is_new() const override { return is_new_; }
  bool is_database() const override { return false; }
  bool is_shared() const override { return false; }
  absl::Status CheckState() override { return jobs_->file().CheckState(); }
  absl::Duration Unwritable() const override { return jobs_->file().Unwritable(); }
  void StopWatching() override {}

 private:
  const bool is_new_;
  const std::unique_ptr<SqliteJobStore> jobs_;
  SqliteCatalogueStore catalogue_{jobs_->file()};  // in the file of jobs_, as are the others
  SqliteInputRecords inputs_{jobs_->file()};
  SqliteFrontendRecords frontends_;
};

absl::StatusOr<std::unique_ptr<Stores>> OpenSqlite(const v1::FrontendConfig& config, const StateDirectory& state,
                                                   Clock& clock, StoresOptions options) {
  const std::string path = StoreOf(config) == "memory" ? ":memory:" : state.File("jobs.db");
  std::error_code error;
  if (path != ":memory:" && std::filesystem::exists(path + ".copy", error) && !std::filesystem::exists(path, error)) {
    return absl::FailedPreconditionError(absl::StrCat("state_directory ", config.state_directory(),
                                                      ": a copy into jobs.db has not ended; run kinora-frontend "
                                                      "--copy-store again, or remove jobs.db.copy"));
  }
  const auto size = std::filesystem::file_size(path, error);
  JobCommitterOptions of_file{.watch = std::move(options.watch),
                              .on_lost = std::move(options.on_lost),
                              .accept_lost_commits = config.accept_lost_commits()};
  auto jobs = SqliteJobStore::Open(path, options.rules, clock, std::move(options.listener), std::move(of_file));
  if (!jobs.ok()) {  // the store's error lacks the folder, which an operator needs
    return absl::Status(jobs.status().code(), absl::StrCat("state_directory ", config.state_directory(), ": ",
                                                           std::string(jobs.status().message())));
  }
  return std::make_unique<SqliteStores>(*std::move(jobs), clock, error || size == 0);
}

class DatabaseStores : public Stores {
 public:
  DatabaseStores(StateWatch watch, std::function<void()> on_lost) : guard_(std::move(watch), std::move(on_lost)) {}

  absl::Status Open(PostgresOptions options) {
    options.check_state = [this] { return guard_.Check(); };
    shared_ = options.use == DatabaseUse::kShared;
    options.on_taken = [this] {
      guard_.Lose(WithErrorInfo(absl::UnavailableError("another frontend has taken this one's database; this one "
                                                       "accepts no more jobs"),
                                "STATE_LOST"));
    };
    KINORA_ASSIGN_OR_RETURN(stores_, PostgresStores::Open(options));
    return absl::OkStatus();
  }

  JobStore& jobs() override { return stores_->jobs(); }
  CatalogueStore& catalogue() override { return stores_->catalogue(); }
  InputRecords& inputs() override { return stores_->inputs(); }
  FrontendRecords& frontends() override { return stores_->frontends(); }
  SharedClientRecords* shared_clients() override { return shared_ ? &stores_->shared_clients() : nullptr; }
  SharedFrontendRecords* shared_frontends() override { return shared_ ? &stores_->shared_frontends() : nullptr; }
  bool is_new() const override { return stores_->is_new(); }
  bool is_database() const override { return true; }
  bool is_shared() const override { return shared_; }
  absl::Status CheckState() override { return guard_.Check(); }
  absl::Duration Unwritable() const override { return stores_->Unwritable(); }
  void StopWatching() override { stores_->StopWatching(); }

 private:
  bool shared_ = false;
  StateGuard guard_;
  std::unique_ptr<PostgresStores> stores_;
};

absl::StatusOr<std::unique_ptr<Stores>> OpenPostgres(const v1::FrontendConfig& config, StoresOptions options) {
  PostgresOptions of_database{.url = StoreOf(config), .rules = options.rules, .listener = std::move(options.listener)};
  KINORA_ASSIGN_OR_RETURN(of_database.driver, OpenPostgresDriver());
  of_database.use = options.shared_place.empty() ? DatabaseUse::kAlone : DatabaseUse::kShared;
  of_database.place = options.shared_place;
  of_database.metrics = options.metrics;
  of_database.grace = of_database.lock_patience = absl::Seconds(config.lease_seconds());
  auto stores = std::make_unique<DatabaseStores>(std::move(options.watch), std::move(options.on_lost));
  KINORA_RETURN_IF_ERROR(stores->Open(std::move(of_database)));
  return stores;
}

absl::Status Named(const char* field, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(field, ": ", std::string(status.message())));
}

enum class Side { kFrom, kTo };

absl::StatusOr<std::unique_ptr<StoreRows>> OpenRows(const std::string& store, const v1::FrontendConfig& config,
                                                    const StateDirectory& state, Side side) {
  if (IsDatabaseUrl(store)) {
    KINORA_ASSIGN_OR_RETURN(const SqlDriver* const driver, OpenPostgresDriver());
    if (const SqlResult invalid = driver->CheckUrl(store)) return absl::InvalidArgumentError(invalid->message);
    return PostgresStoreRows::Open(*driver, store, side == Side::kFrom ? SchemaUse::kCopyFrom : SchemaUse::kCopyInto);
  }
  if (store != "sqlite") return absl::InvalidArgumentError("only sqlite and postgresql://… can be copied");
  return side == Side::kFrom ? SqliteStoreRows::Open(state.File("jobs.db"), config.accept_lost_commits())
                             : SqliteStoreRows::Create(state.File("jobs.db"));
}

}  // namespace

absl::StatusOr<StoreSummary> CopyIntoStore(const std::string& from, const v1::FrontendConfig& config,
                                           const StateDirectory& state) {
  const std::string to = StoreOf(config);
  if (from == to) return absl::InvalidArgumentError("copy-store: is the same as store");
  const auto source = OpenRows(from, config, state, Side::kFrom);
  if (!source.ok()) return Named("copy-store", source.status());
  const auto destination = OpenRows(to, config, state, Side::kTo);
  if (!destination.ok()) return Named("store", destination.status());
  return CopyStore(**source, **destination);
}

absl::StatusOr<std::unique_ptr<Stores>> OpenStores(const v1::FrontendConfig& config, const StateDirectory& state,
                                                   Clock& clock, StoresOptions options) {
  if (!IsDatabaseUrl(StoreOf(config))) return OpenSqlite(config, state, clock, std::move(options));
  auto stores = OpenPostgres(config, std::move(options));
  if (stores.ok()) return stores;
  return Named("store", stores.status());
}

absl::Status CheckStore(const v1::FrontendConfig& config) {
  const std::string store = StoreOf(config);
  if (!IsDatabaseUrl(store)) return absl::OkStatus();
  const absl::StatusOr<const SqlDriver*> driver = OpenPostgresDriver();
  if (!driver.ok()) return InvalidField("store", std::string(driver.status().message()));
  const SqlResult invalid = (*driver)->CheckUrl(store);
  return invalid ? InvalidField("store", invalid->message) : absl::OkStatus();
}

}  // namespace kinora

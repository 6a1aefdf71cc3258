#include "server/frontend/postgres/postgres_stores.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/frontend/postgres/postgres_schema.h"
#include "server/net/event_loop.h"

namespace kinora {
namespace {

constexpr absl::Duration kStartPatience = absl::Seconds(10);
constexpr int64_t kSpeedsKeptInAll = 5000;

// Keys of transactions that are about no job; any text would do, but its writers keep their order.
constexpr char kCatalogue[] = "catalogue", kInputs[] = "inputs", kSessions[] = "sessions";

SqlSessionOptions SessionOf(const PostgresOptions& options) {
  SqlSessionOptions session{.driver = options.driver, .url = options.url, .greeting = kPostgresGreeting};
  session.steady = options.steady;
  return session;
}

SqlPoolOptions PoolOf(const PostgresOptions& options, SqlHealth& health) {
  SqlPoolOptions pool{.session = SessionOf(options), .patience = options.patience};
  pool.session.health = &health;
  return pool;
}

absl::Status RunOne(SqlTransaction& transaction, const char* sql, const SqlValues& values) {
  return transaction.Run(sql, values).status();
}

std::vector<InputRecord> InputsOf(const SqlRows& rows) {
  std::vector<InputRecord> inputs;
  inputs.reserve(rows.size());
  for (int row = 0; row < rows.size(); ++row) {
    inputs.push_back({.sha256 = rows.Bytes(row, 0),
                      .bytes = rows.Int(row, 1),
                      .media_type = rows.Bytes(row, 2),
                      .expiry = absl::FromUnixMicros(rows.Int(row, 3))});
  }
  return inputs;
}

}  // namespace

PostgresTransactions::PostgresTransactions(const PostgresOptions& options, SqlHealth& health)
    : grace_(options.grace),
      check_state_(options.check_state ? options.check_state : [] { return absl::OkStatus(); }),
      health_(health),
      listener_(options.listener),
      pool_(PoolOf(options, health)) {}

PostgresJobTables::Grace PostgresTransactions::Grace() const {
  return {.after_start = grace_, .left = health_.away_until() + grace_ - health_.steady().Now()};
}

void PostgresTransactions::WriteJob(const JobId& id, Room, absl::AnyInvocable<absl::Status(JobTables&, Events&)> apply,
                                    Finished done) {
  auto events = std::make_shared<Events>();
  pool_.Write(
      id,
      [this, apply = std::move(apply), events](SqlTransaction& transaction) mutable -> absl::Status {
        events->clear();
        KINORA_RETURN_IF_ERROR(check_state_());
        PostgresJobTables tables(transaction, Grace());
        return apply(tables, *events);
      },
      [this, events, done = std::move(done)](absl::Status status) mutable {
        if (status.ok()) status = check_state_();  // the state may have been lost meanwhile
        if (status.ok()) {
          absl::MutexLock lock(&listening_);
          for (const v1::VideoEvent& event : *events) listener_(event);
        }
        done(std::move(status));
      });
}

void PostgresTransactions::ReadJobs(absl::AnyInvocable<absl::Status(JobTables&)> read, Finished done) {
  pool_.Read(
      [this, read = std::move(read)](SqlTransaction& transaction) mutable {
        PostgresJobTables tables(transaction, Grace());
        return read(tables);
      },
      std::move(done));
}

void PostgresCatalogueStore::PutModel(const v1::ModelInfo& model, Finished done) {
  pool_.Write(
      kCatalogue,
      [model](SqlTransaction& transaction) {
        return RunOne(transaction,
                      "INSERT INTO models (id, info) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET info = "
                      "excluded.info",
                      {model.id(), model.SerializeAsString()});
      },
      std::move(done));
}

void PostgresCatalogueStore::Models(Done<std::vector<v1::ModelInfo>> done) {
  pool_.Read<std::vector<v1::ModelInfo>>(
      [](SqlTransaction& transaction) -> absl::StatusOr<std::vector<v1::ModelInfo>> {
        KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction.Run("SELECT id, info FROM models ORDER BY id"));
        std::vector<v1::ModelInfo> models;
        for (int row = 0; row < rows.size(); ++row) {
          // A worker or a file will describe a damaged one again.
          if (v1::ModelInfo model; model.ParseFromString(rows.Bytes(row, 1))) models.push_back(std::move(model));
        }
        return models;
      },
      std::move(done));
}

void PostgresCatalogueStore::AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) {
  pool_.Write(
      kCatalogue,
      [place, run](SqlTransaction& transaction) -> absl::Status {
        KINORA_RETURN_IF_ERROR(
            RunOne(transaction, "INSERT INTO speeds (place, run) VALUES ($1, $2)", {place, run.SerializeAsString()}));
        KINORA_RETURN_IF_ERROR(RunOne(transaction,
                                      "DELETE FROM speeds WHERE place = $1 AND ordinal <= (SELECT ordinal FROM speeds "
                                      "WHERE place = $1 ORDER BY ordinal DESC LIMIT 1 OFFSET $2)",
                                      {place, int64_t{kSpeedsKept}}));
        return RunOne(transaction, "DELETE FROM speeds WHERE ordinal <= (SELECT max(ordinal) FROM speeds) - $1",
                      {kSpeedsKeptInAll});
      },
      std::move(done));
}

void PostgresCatalogueStore::Speeds(const std::string& place, Done<v1::SpeedHistory> done) {
  pool_.Read<v1::SpeedHistory>(
      [place](SqlTransaction& transaction) -> absl::StatusOr<v1::SpeedHistory> {
        KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                                transaction.Run("SELECT run FROM speeds WHERE place = $1 ORDER BY ordinal", {place}));
        v1::SpeedHistory history;
        for (int row = 0; row < rows.size(); ++row) {
          if (v1::RunSpeed run; run.ParseFromString(rows.Bytes(row, 0))) *history.add_runs() = std::move(run);
        }
        return history;
      },
      std::move(done));
}

// What another frontend has stored stays: that the input is complete, and a later expiry.
constexpr char kMergeInput[] =
    "INSERT INTO inputs (sha256, bytes, media_type, expire_micros) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (sha256) DO UPDATE SET bytes = excluded.bytes, "
    "media_type = CASE WHEN excluded.media_type = '' THEN inputs.media_type ELSE excluded.media_type END, "
    "expire_micros = greatest(excluded.expire_micros, inputs.expire_micros)";
constexpr char kReplaceInput[] =
    "INSERT INTO inputs (sha256, bytes, media_type, expire_micros) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (sha256) DO UPDATE SET bytes = excluded.bytes, media_type = excluded.media_type, "
    "expire_micros = excluded.expire_micros";

void PostgresInputRecords::PutInput(const InputRecord& input, Finished done) {
  pool_.Write(
      kInputs,
      [input, sql = shared_ ? kMergeInput : kReplaceInput](SqlTransaction& transaction) {
        return RunOne(transaction, sql,
                      {input.sha256, input.bytes, input.media_type, absl::ToUnixMicros(input.expiry)});
      },
      std::move(done));
}

void PostgresInputRecords::RemoveInput(const std::string& sha256, absl::Time now, Finished done) {
  pool_.Write(
      kInputs,
      [sha256, now](SqlTransaction& transaction) -> absl::Status {
        KINORA_RETURN_IF_ERROR(
            RunOne(transaction, "DELETE FROM inputs WHERE sha256 = $1 AND (media_type = '' OR expire_micros <= $2)",
                   {sha256, absl::ToUnixMicros(now)}));
        KINORA_ASSIGN_OR_RETURN(const SqlRows left,
                                transaction.Run("SELECT sha256 FROM inputs WHERE sha256 = $1", {sha256}));
        return left.size() == 0 ? absl::OkStatus() : absl::AbortedError("the input has not expired");
      },
      std::move(done));
}

void PostgresInputRecords::Inputs(Done<std::vector<InputRecord>> done) {
  pool_.Read<std::vector<InputRecord>>(
      [](SqlTransaction& transaction) -> absl::StatusOr<std::vector<InputRecord>> {
        KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                                transaction.Run("SELECT sha256, bytes, media_type, expire_micros FROM inputs"));
        return InputsOf(rows);
      },
      std::move(done));
}

void PostgresInputRecords::FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) {
  pool_.Read<std::vector<InputRecord>>(
      [keys = std::move(keys)](SqlTransaction& transaction) -> absl::StatusOr<std::vector<InputRecord>> {
        std::vector<InputRecord> found;
        for (const std::string& key : keys) {
          KINORA_ASSIGN_OR_RETURN(
              const SqlRows rows,
              transaction.Run("SELECT sha256, bytes, media_type, expire_micros FROM inputs WHERE sha256 = $1", {key}));
          for (InputRecord& input : InputsOf(rows)) found.push_back(std::move(input));
        }
        return found;
      },
      std::move(done));
}

absl::StatusOr<std::unique_ptr<PostgresStores>> PostgresStores::Open(const PostgresOptions& options) {
  SqlSessionOptions first = SessionOf(options);
  first.greeting.clear();
  SqlSession session(first);
  KINORA_ASSIGN_OR_RETURN(const bool is_new, PreparePostgresSchema(session, options.steady->Now() + kStartPatience));
  std::unique_ptr<PostgresLock> lock;
  if (options.on_taken) {
    KINORA_ASSIGN_OR_RETURN(lock, PostgresLock::Take(SessionOf(options), options.use, options.place,
                                                     options.lock_patience, options.on_taken));
  }
  std::unique_ptr<PostgresStores> stores(new PostgresStores(options));
  stores->is_new_ = is_new;
  if (options.metrics != nullptr) {
    stores->figures_ = std::make_unique<DatabaseFigures>(stores->transactions_.pool(), *options.metrics,
                                                         std::make_unique<EventLoop>(*options.steady));
  }
  stores->transactions_.pool().Write(
      kSessions,
      [](SqlTransaction& transaction) {
        constexpr absl::Duration kLongGone = absl::Hours(24 * 7);
        const int64_t micros = absl::ToInt64Microseconds(kLongGone);
        KINORA_RETURN_IF_ERROR(
            RunOne(transaction, "DELETE FROM frontends WHERE lease_micros < kinora_now() - $1", {micros}));
        return RunOne(transaction, "DELETE FROM sessions WHERE micros < kinora_now() - $1", {micros});
      },
      [](const absl::Status&) {});  // the next start tries again
  stores->lock_ = std::move(lock);
  return stores;
}

}  // namespace kinora

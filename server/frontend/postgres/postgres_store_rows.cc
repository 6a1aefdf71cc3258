#include "server/frontend/postgres/postgres_store_rows.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/frontend/jobs/job_rows.h"

namespace kinora {
namespace {

constexpr absl::Duration kLockPatience = absl::Seconds(5);

absl::Status RunOne(SqlTransaction& transaction, const char* sql, const SqlValues& values = {}) {
  return transaction.Run(sql, values).status();
}

absl::StatusOr<int64_t> Ask(SqlTransaction& transaction, const char* sql) {
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction.Run(sql));
  return rows.size() == 0 ? 0 : rows.Int(0, 0);
}

JobRow ReadJob(const SqlRows& rows, int row) {
  JobRow job{.ordinal = rows.Int(row, 0), .id = rows.Bytes(row, 1), .state = rows.Int(row, 2)};
  job.hidden = rows.Int(row, 3);
  job.expire_micros = rows.Int(row, 4);
  job.request_id = rows.Bytes(row, 5);
  job.fingerprint = rows.Bytes(row, 6);
  job.video = rows.Bytes(row, 7);
  job.scheduling = rows.Bytes(row, 8);
  job.detach = rows.Int(row, 9);
  job.tied_to = rows.Bytes(row, 10);
  job.owner = rows.Bytes(row, 11);
  job.lease_micros = rows.Int(row, 12);
  job.queued_micros = rows.Int(row, 13);
  job.cancel_requested = rows.Int(row, 14);
  job.lost_groups = rows.Int(row, 15);
  job.last_sequence = rows.Int(row, 16);
  return job;
}

absl::Status PutJob(SqlTransaction& transaction, const JobRow& job) {
  KINORA_RETURN_IF_ERROR(RunOne(
      transaction,
      "INSERT INTO jobs (ordinal, id, state, hidden, expire_micros, request_id, fingerprint, scheduling, detach, "
      "tied_to, owner, lease_micros, queued_micros, cancel_requested, lost_groups, last_sequence) "
      "OVERRIDING SYSTEM VALUE "
      "VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
      {job.ordinal, job.id, job.state, job.hidden, job.expire_micros, job.request_id, job.fingerprint, job.scheduling,
       job.detach, job.tied_to, job.owner, job.lease_micros, job.queued_micros, job.cancel_requested, job.lost_groups,
       job.last_sequence}));
  KINORA_RETURN_IF_ERROR(RunOne(transaction, "INSERT INTO records (job, video) VALUES ($1, $2)", {job.id, job.video}));
  for (const JobRow::Event& event : job.events) {
    KINORA_RETURN_IF_ERROR(RunOne(transaction, "INSERT INTO events (job, sequence, event) VALUES ($1, $2, $3)",
                                  {job.id, event.sequence, event.event}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresStoreRows>> PostgresStoreRows::Open(const SqlDriver& driver,
                                                                           const std::string& url, SchemaUse use) {
  SqlSessionOptions options{.driver = &driver, .url = url};
  SqlSession first(options);
  KINORA_RETURN_IF_ERROR(PreparePostgresSchema(first, options.steady->Now() + kPatience, use).status());
  options.greeting = kPostgresGreeting;
  std::unique_ptr<PostgresStoreRows> rows(new PostgresStoreRows(options));
  KINORA_ASSIGN_OR_RETURN(rows->lock_, PostgresLock::Take(options, DatabaseUse::kAlone, /*place=*/"", kLockPatience,
                                                          [lost = rows->lost_] { *lost = true; }));
  return rows;
}

absl::StatusOr<std::string> PostgresStoreRows::LiveFrontend() {
  std::string id;
  KINORA_RETURN_IF_ERROR(Read([&](SqlTransaction& transaction) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(
        const SqlRows rows,
        transaction.Run("SELECT id FROM frontends WHERE lease_micros > kinora_now() UNION ALL "
                        "SELECT owner FROM jobs WHERE owner <> '' AND lease_micros > kinora_now()"));
    if (rows.size() > 0) id = rows.Bytes(0, 0);
    return absl::OkStatus();
  }));
  return id;
}

absl::StatusOr<std::vector<JobRow>> PostgresStoreRows::JobsAfter(int64_t ordinal, int limit) {
  std::vector<JobRow> jobs;
  KINORA_RETURN_IF_ERROR(Read([&](SqlTransaction& transaction) -> absl::Status {
    jobs.clear();
    KINORA_ASSIGN_OR_RETURN(
        const SqlRows rows,
        transaction.Run(
            "SELECT j.ordinal, j.id, j.state, j.hidden, j.expire_micros, coalesce(j.request_id, ''), "
            "j.fingerprint, r.video, j.scheduling, j.detach, j.tied_to, j.owner, j.lease_micros, "
            "j.queued_micros, j.cancel_requested, j.lost_groups, j.last_sequence "
            "FROM jobs j LEFT JOIN records r ON r.job = j.id WHERE j.ordinal > $1 ORDER BY j.ordinal LIMIT $2",
            {ordinal, int64_t{limit}}));
    std::map<std::string, size_t> places;
    for (int row = 0; row < rows.size(); ++row) {
      if (rows.IsNull(row, 7)) return Damaged(rows.Bytes(row, 1));
      places[rows.Bytes(row, 1)] = jobs.size();
      jobs.push_back(ReadJob(rows, row));
    }
    if (jobs.empty()) return absl::OkStatus();
    KINORA_ASSIGN_OR_RETURN(
        const SqlRows events,
        transaction.Run("SELECT e.job, e.sequence, e.event FROM jobs j JOIN events e ON e.job = j.id "
                        "WHERE j.ordinal > $1 AND j.ordinal <= $2 ORDER BY e.job, e.sequence",
                        {ordinal, jobs.back().ordinal}));
    for (int row = 0; row < events.size(); ++row) {
      jobs[places.at(events.Bytes(row, 0))].events.push_back(
          {.sequence = events.Int(row, 1), .event = events.Bytes(row, 2)});
    }
    return absl::OkStatus();
  }));
  return jobs;
}

absl::StatusOr<OtherRows> PostgresStoreRows::Others() {
  OtherRows others;
  KINORA_RETURN_IF_ERROR(Read([&](SqlTransaction& transaction) -> absl::Status {
    others = {};
    KINORA_ASSIGN_OR_RETURN(SqlRows rows, transaction.Run("SELECT id, micros FROM expired ORDER BY id"));
    for (int r = 0; r < rows.size(); ++r) others.expired.push_back({.id = rows.Bytes(r, 0), .micros = rows.Int(r, 1)});
    KINORA_ASSIGN_OR_RETURN(rows, transaction.Run("SELECT id, info FROM models ORDER BY id"));
    for (int r = 0; r < rows.size(); ++r) others.models.push_back({.id = rows.Bytes(r, 0), .info = rows.Bytes(r, 1)});
    KINORA_ASSIGN_OR_RETURN(rows, transaction.Run("SELECT place, run FROM speeds ORDER BY ordinal"));
    for (int r = 0; r < rows.size(); ++r) others.speeds.push_back({.place = rows.Bytes(r, 0), .run = rows.Bytes(r, 1)});
    KINORA_ASSIGN_OR_RETURN(
        rows, transaction.Run("SELECT sha256, bytes, media_type, expire_micros FROM inputs ORDER BY sha256"));
    for (int r = 0; r < rows.size(); ++r) {
      others.inputs.push_back({.sha256 = rows.Bytes(r, 0), .bytes = rows.Int(r, 1), .media_type = rows.Bytes(r, 2)});
      others.inputs.back().expire_micros = rows.Int(r, 3);
    }
    return absl::OkStatus();
  }));
  return others;
}

absl::StatusOr<int64_t> PostgresStoreRows::BeginCopy() {
  int64_t last = 0;
  KINORA_RETURN_IF_ERROR(Write([&](SqlTransaction& transaction) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(last, Ask(transaction, "SELECT coalesce(max(ordinal), 0) FROM jobs"));
    KINORA_ASSIGN_OR_RETURN(const int64_t begun, Ask(transaction, "SELECT oldest_reader FROM schema_version"));
    if (last > 0 && begun != kBeingCopied) {
      return absl::FailedPreconditionError("the database has jobs; choose an empty one");
    }
    return RunOne(transaction, "UPDATE schema_version SET oldest_reader = $1", {kBeingCopied});
  }));
  return last;
}

absl::Status PostgresStoreRows::PutJobs(const std::vector<JobRow>& jobs) {
  return Write([&](SqlTransaction& transaction) -> absl::Status {
    for (const JobRow& job : jobs) KINORA_RETURN_IF_ERROR(PutJob(transaction, job));
    return absl::OkStatus();
  });
}

absl::Status PostgresStoreRows::PutOthers(const OtherRows& others) {
  return Write([&](SqlTransaction& transaction) -> absl::Status {
    for (const char* sql : {"DELETE FROM expired", "DELETE FROM models", "DELETE FROM speeds", "DELETE FROM inputs"}) {
      KINORA_RETURN_IF_ERROR(RunOne(transaction, sql));
    }
    for (const auto& row : others.expired) {
      KINORA_RETURN_IF_ERROR(
          RunOne(transaction, "INSERT INTO expired (id, micros) VALUES ($1, $2)", {row.id, row.micros}));
    }
    for (const auto& row : others.models) {
      KINORA_RETURN_IF_ERROR(RunOne(transaction, "INSERT INTO models (id, info) VALUES ($1, $2)", {row.id, row.info}));
    }
    for (const auto& row : others.speeds) {
      KINORA_RETURN_IF_ERROR(
          RunOne(transaction, "INSERT INTO speeds (place, run) VALUES ($1, $2)", {row.place, row.run}));
    }
    for (const auto& row : others.inputs) {
      KINORA_RETURN_IF_ERROR(RunOne(transaction,
                                    "INSERT INTO inputs (sha256, bytes, media_type, expire_micros) "
                                    "VALUES ($1, $2, $3, $4)",
                                    {row.sha256, row.bytes, row.media_type, row.expire_micros}));
    }
    return absl::OkStatus();
  });
}

absl::Status PostgresStoreRows::CheckKept() {
  return *lost_ ? absl::FailedPreconditionError("a frontend has taken the database meanwhile; copy again")
                : absl::OkStatus();
}

absl::Status PostgresStoreRows::EndCopy() {
  return Write([](SqlTransaction& transaction) -> absl::Status {
    // New jobs come after those that were copied.
    KINORA_RETURN_IF_ERROR(RunOne(transaction,
                                  "SELECT setval(pg_get_serial_sequence('jobs', 'ordinal'), "
                                  "(SELECT coalesce(max(ordinal), 0) + 1 FROM jobs), false)"));
    return RunOne(transaction, "UPDATE schema_version SET oldest_reader = $1", {kPostgresOldestReader});
  });
}

}  // namespace kinora

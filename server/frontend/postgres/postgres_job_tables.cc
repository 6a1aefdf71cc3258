#include "server/frontend/postgres/postgres_job_tables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/jobs/job_listing.h"
#include "server/frontend/jobs/job_rows.h"
#include "server/frontend/postgres/postgres_listing.h"

namespace kinora {
namespace {

constexpr int64_t kDelete = 2;  // in cancel_requested

// A job whose rows another transaction has locked is read once that has ended, both rows as it left them.
#define KINORA_SELECT_JOBS                                                                                       \
  "SELECT j.id, r.video, j.scheduling, j.detach, j.owner, j.lease_micros, j.queued_micros, j.cancel_requested, " \
  "j.lost_groups, j.last_sequence FROM jobs j JOIN records r ON r.job = j.id "

// PostgreSQL has no texts with a NUL character, so nothing in it has such a name.
bool CanBeStored(const std::string& text) { return text.find('\0') == std::string::npos; }

absl::StatusOr<JobRecord> ReadRecord(const SqlRows& rows, int row) {
  const JobId& id = rows.Bytes(row, 0);
  JobRecord record;
  KINORA_ASSIGN_OR_RETURN(VideoRow stored, ReadVideo(id, rows.Bytes(row, 1), /*sound=*/true));
  record.video = std::move(stored.video);
  record.resume = std::move(stored.resume);
  if (!record.scheduling.ParseFromString(rows.Bytes(row, 2))) return Damaged(id);
  record.detach = rows.Int(row, 3) != 0;
  record.owner = rows.Bytes(row, 4);
  record.lease_expiry = absl::FromUnixMicros(rows.Int(row, 5));
  record.queued_since = absl::FromUnixMicros(rows.Int(row, 6));
  record.cancel_requested = rows.Int(row, 7) != 0;
  record.delete_requested = rows.Int(row, 7) == kDelete;
  record.lost_groups = static_cast<int>(rows.Int(row, 8));
  record.last_sequence = rows.Int(row, 9);
  return record;
}

std::vector<JobRecord> ReadRecords(const SqlRows& rows) {
  std::vector<JobRecord> records;
  records.reserve(rows.size());
  for (int row = 0; row < rows.size(); ++row) {
    absl::StatusOr<JobRecord> record = ReadRecord(rows, row);
    if (record.ok()) {
      records.push_back(*std::move(record));
    } else {
      Log(Severity::kError, "job_damaged",
          {{"job", rows.Bytes(row, 0)}, {"why", std::string(record.status().message())}});
    }
  }
  return records;
}

std::vector<JobId> ReadIds(const SqlRows& rows) {
  std::vector<JobId> ids;
  ids.reserve(rows.size());
  for (int row = 0; row < rows.size(); ++row) ids.push_back(rows.Bytes(row, 0));
  return ids;
}

int64_t ExpireMicros(const v1::Video& video) {  // a job that has not ended never expires
  return absl::ToUnixMicros(video.has_expire_time() ? FromProto(video.expire_time()) : absl::InfiniteFuture());
}

// $1 to $9 of the statements of Insert and Save.
SqlValues StateOf(const JobRecord& record) {
  return {record.video.id(),
          static_cast<int64_t>(record.video.state()),
          ExpireMicros(record.video),
          record.owner,
          absl::ToUnixMicros(record.lease_expiry),
          absl::ToUnixMicros(record.queued_since),
          record.delete_requested ? kDelete : int64_t{record.cancel_requested},
          int64_t{record.lost_groups},
          record.last_sequence};
}

}  // namespace

absl::Time PostgresJobTables::Now() { return transaction_.Now().value_or(absl::UnixEpoch()); }

absl::Status PostgresJobTables::NotFound(const JobId& id, const char* field) {
  constexpr size_t kShownId = 100;  // the client's text may be as long as a message
  absl::Status status = absl::NotFoundError(absl::StrCat(field, "no video \"", id.substr(0, kShownId), "\""));
  if (!CanBeStored(id)) return status;
  KINORA_ASSIGN_OR_RETURN(const SqlRows expired,
                          transaction_.Run("SELECT 1::bigint FROM expired WHERE id = $1 UNION ALL "
                                           "SELECT 1::bigint FROM jobs WHERE id = $1 AND hidden = 2",
                                           {id}));
  if (expired.size() == 0) return status;
  return WithErrorInfo(absl::NotFoundError(absl::StrCat(field, "video \"", id, "\" has expired")), "EXPIRED");
}

absl::StatusOr<JobRecord> PostgresJobTables::Load(const JobId& id) {
  if (!CanBeStored(id)) return NotFound(id);
  static constexpr char kRead[] = KINORA_SELECT_JOBS "WHERE j.id = $1 AND j.hidden = 0";
  static constexpr char kLock[] = KINORA_SELECT_JOBS "WHERE j.id = $1 AND j.hidden = 0 FOR NO KEY UPDATE OF j, r";
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction_.Run(transaction_.writes() ? kLock : kRead, {id}));
  if (rows.size() == 0) return NotFound(id);
  loaded_[id] = rows.Bytes(0, 1);
  return ReadRecord(rows, 0);
}

absl::Status PostgresJobTables::Insert(const JobRecord& record, const std::string& fingerprint,
                                       const v1::VideoEvent& event, const FrontendId& tied_to) {
  SqlValues values = StateOf(record);
  const std::string& request_id = record.video.request_id();
  if (!CanBeStored(request_id)) return InvalidField("request_id", "has a NUL character");
  values.push_back(request_id.empty() ? SqlValue::Null() : SqlValue(request_id));
  for (SqlValue& value : SqlValues{fingerprint, record.scheduling.SerializeAsString(), int64_t{record.detach},
                                   record.detach ? std::string() : tied_to, VideoColumn(record.video, record.resume),
                                   event.sequence(), event.SerializeAsString()}) {
    values.push_back(std::move(value));
  }
  return transaction_
      .Run(
          "WITH job AS (INSERT INTO jobs (id, state, expire_micros, owner, lease_micros, queued_micros, "
          "cancel_requested, lost_groups, last_sequence, request_id, fingerprint, scheduling, detach, tied_to) "
          "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)), "
          "record AS (INSERT INTO records (job, video) VALUES ($1, $15)) "
          "INSERT INTO events (job, sequence, event) VALUES ($1, $16, $17)",
          values)
      .status();
}

absl::Status PostgresJobTables::Save(const JobRecord& record, const v1::VideoEvent& event) {
  const bool ended = IsTerminal(record.video.state());
  const bool has_event = event.event_case() != v1::VideoEvent::EVENT_NOT_SET;
  std::string video = VideoColumn(record.video, record.resume);
  const bool changed = video != loaded_[record.video.id()];
  SqlValues values = StateOf(record);
  for (SqlValue& value : SqlValues{int64_t{ended}, int64_t{ended && record.delete_requested}, int64_t{changed},
                                   std::move(video), int64_t{has_event}, event.sequence(), event.SerializeAsString()}) {
    values.push_back(std::move(value));
  }
  return transaction_
      .Run(
          "WITH job AS (UPDATE jobs SET state = $2, expire_micros = $3, owner = $4, lease_micros = $5, "
          "queued_micros = $6, cancel_requested = $7, lost_groups = $8, last_sequence = $9, "
          "tied_to = CASE WHEN $10 = 1::bigint THEN '' ELSE tied_to END, "
          "hidden = CASE WHEN $11 = 1::bigint THEN 1 ELSE hidden END, "
          "request_id = CASE WHEN $11 = 1::bigint THEN NULL ELSE request_id END WHERE id = $1), "
          "record AS (UPDATE records SET video = $13 WHERE job = $1 AND $12 = 1::bigint) "
          "INSERT INTO events (job, sequence, event) SELECT $1, $15, $16 WHERE $14 = 1::bigint",
          values)
      .status();
}

absl::StatusOr<std::vector<v1::VideoEvent>> PostgresJobTables::EventsAfter(const JobId& id, int64_t sequence) {
  KINORA_ASSIGN_OR_RETURN(
      const SqlRows rows,
      transaction_.Run("SELECT event FROM events WHERE job = $1 AND sequence > $2 ORDER BY sequence", {id, sequence}));
  std::vector<v1::VideoEvent> events(rows.size());
  for (int row = 0; row < rows.size(); ++row) {
    if (!events[row].ParseFromString(rows.Bytes(row, 0))) {
      return absl::DataLossError(absl::StrCat("an event of job \"", id, "\" is damaged; delete the job"));
    }
  }
  return events;
}

absl::StatusOr<std::optional<JobTables::RequestKey>> PostgresJobTables::FindRequest(const std::string& request_id) {
  if (!CanBeStored(request_id)) return std::nullopt;
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                          transaction_.Run("SELECT id, fingerprint FROM jobs WHERE request_id = $1", {request_id}));
  if (rows.size() == 0) return std::nullopt;
  return RequestKey{.id = rows.Bytes(0, 0), .fingerprint = rows.Bytes(0, 1)};
}

absl::StatusOr<JobPage> PostgresJobTables::List(const ListOptions& options) {
  std::optional<int64_t> after;
  if (!options.after_id.empty()) {
    if (!CanBeStored(options.after_id)) return NotFound(options.after_id, "after_id: ");
    KINORA_ASSIGN_OR_RETURN(
        const SqlRows rows,
        transaction_.Run("SELECT ordinal FROM jobs WHERE id = $1 AND hidden = 0", {options.after_id}));
    if (rows.size() == 0) return NotFound(options.after_id, "after_id: ");
    after = rows.Int(0, 0);
  }
  if (!CanBeStored(options.id_prefix)) return JobPage{};
  return ListPostgresJobs(transaction_, options, after);
}

absl::StatusOr<std::vector<JobRecord>> PostgresJobTables::Unfinished() {
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                          transaction_.Run(KINORA_SELECT_JOBS "WHERE j.state < 4 AND j.hidden = 0 ORDER BY j.ordinal"));
  return ReadRecords(rows);
}

absl::StatusOr<std::vector<JobRecord>> PostgresJobTables::LostRuns(const FrontendId& owner) {
  if (!LeasesCount()) return std::vector<JobRecord>{};
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                          transaction_.Run(KINORA_SELECT_JOBS "WHERE j.owner <> '' AND j.owner <> $1 AND j.hidden = 0 "
                                                              "AND j.lease_micros <= kinora_now() ORDER BY j.ordinal",
                                           {owner}));
  return ReadRecords(rows);
}

bool PostgresJobTables::LeasesCount() {
  if (grace_.left > absl::ZeroDuration()) return false;
  const auto rows =
      transaction_.Run("SELECT (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000000)::bigint");
  return rows.ok() && absl::Microseconds(rows->Int(0, 0)) >= grace_.after_start;
}

absl::StatusOr<bool> PostgresJobTables::Knows(const JobId& id) {
  if (!CanBeStored(id)) return false;
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction_.Run("SELECT 1::bigint FROM jobs WHERE id = $1", {id}));
  return rows.size() > 0;
}

absl::Status PostgresJobTables::Hide(const JobId& id) {
  return transaction_.Run("UPDATE jobs SET hidden = 1, request_id = NULL, tied_to = '' WHERE id = $1", {id}).status();
}

absl::Status PostgresJobTables::HideExpired(absl::Time now) {
  while (true) {  // in pieces, each of which takes far less time than a statement may
    KINORA_ASSIGN_OR_RETURN(
        const SqlRows rows,
        transaction_.Run(
            "UPDATE jobs SET hidden = 2, request_id = NULL WHERE id IN (SELECT id FROM jobs "
            "WHERE hidden = 0 AND expire_micros <= $1 ORDER BY expire_micros LIMIT 1000) RETURNING 1::bigint",
            {absl::ToUnixMicros(now)}));
    if (rows.size() == 0) break;
  }
  return transaction_.Run("DELETE FROM expired WHERE micros < $1", {absl::ToUnixMicros(now - kKeepExpiredIds)})
      .status();
}

absl::StatusOr<std::vector<JobId>> PostgresJobTables::Hidden() {
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction_.Run("SELECT id FROM jobs WHERE hidden > 0"));
  return ReadIds(rows);
}

absl::Status PostgresJobTables::Purge(const JobId& id) {
  if (!CanBeStored(id)) return absl::OkStatus();
  // Locks the row, so that the job is hidden, or not, for all that follows.
  KINORA_ASSIGN_OR_RETURN(
      const SqlRows rows,
      transaction_.Run("DELETE FROM jobs WHERE id = $1 AND hidden > 0 RETURNING hidden, kinora_now()", {id}));
  if (rows.size() == 0) return absl::OkStatus();
  constexpr int64_t kExpired = 2;
  return transaction_
      .Run(
          "WITH record AS (DELETE FROM records WHERE job = $1), event AS (DELETE FROM events WHERE job = $1) "
          "INSERT INTO expired (id, micros) SELECT $1, $2 WHERE $3 = 1::bigint "
          "ON CONFLICT (id) DO UPDATE SET micros = excluded.micros",
          {id, rows.Int(0, 1), int64_t{rows.Int(0, 0) == kExpired}})
      .status();
}

}  // namespace kinora

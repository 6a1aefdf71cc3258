#include "server/frontend/jobs/sqlite_job_tables.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/jobs/frontend_tables.h"
#include "server/frontend/jobs/job_listing.h"
#include "server/frontend/jobs/job_rows.h"
#include "server/frontend/jobs/job_schema.h"

namespace kinora {
namespace {

constexpr int64_t kMostCounted =
    1 << 30;                    // limit of events, attempts and lost groups of a job; more is damage and could overflow
constexpr int64_t kDelete = 2;  // in cancel_requested

#define KINORA_JOB_COLUMNS \
  "id, video, scheduling, detach, owner, lease_micros, queued_micros, cancel_requested, lost_groups, last_sequence"
absl::StatusOr<std::vector<JobId>> ReadIds(Statement& select) {
  std::vector<JobId> ids;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return ids;
    ids.push_back(select.Bytes(0));
  }
}

// Reads a row of KINORA_JOB_COLUMNS and KINORA_JOB_IS_SOUND.
absl::StatusOr<JobRecord> ReadRecord(const Statement& row) {
  const JobId id = row.Bytes(0);
  JobRecord record;
  KINORA_ASSIGN_OR_RETURN(VideoRow stored, ReadVideo(id, row.Bytes(1), row.Int(10) != 0));
  record.video = std::move(stored.video);
  record.resume = std::move(stored.resume);
  if (!record.scheduling.ParseFromString(row.Bytes(2))) return Damaged(id);
  record.detach = row.Int(3) != 0;
  record.owner = row.Bytes(4);
  record.lease_expiry = absl::FromUnixMicros(row.Int(5));
  record.queued_since = absl::FromUnixMicros(row.Int(6));
  record.cancel_requested = row.Int(7) != 0;
  record.delete_requested = row.Int(7) == kDelete;
  const auto counted = [](int64_t n) { return n >= 0 && n < kMostCounted; };
  if (!counted(record.video.attempt()) || !counted(row.Int(8)) || !counted(row.Int(9))) return Damaged(id);
  record.lost_groups = static_cast<int>(row.Int(8));
  record.last_sequence = row.Int(9);
  return record;
}

// Reads all rows of KINORA_JOB_COLUMNS and KINORA_JOB_IS_SOUND; skips and logs damaged ones.
absl::StatusOr<std::vector<JobRecord>> ReadRecords(Statement& select) {
  std::vector<JobRecord> records;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return records;
    absl::StatusOr<JobRecord> record = ReadRecord(select);
    if (record.ok()) {
      records.push_back(*std::move(record));
    } else {
      Log(Severity::kError, "job_damaged", {{"job", select.Bytes(0)}, {"why", std::string(record.status().message())}});
    }
  }
}

int64_t ExpireMicros(const v1::Video& video) {  // a job that has not ended never expires
  return absl::ToUnixMicros(video.has_expire_time() ? FromProto(video.expire_time()) : absl::InfiniteFuture());
}

// Binds the columns that change, in the order of the statements of Insert and Update.
void BindState(const JobRecord& record, Statement& statement) {
  statement.Bind(static_cast<int64_t>(record.video.state()))
      .Bind(ExpireMicros(record.video))
      .BindBlob(VideoColumn(record.video, record.resume))
      .Bind(record.owner)
      .Bind(absl::ToUnixMicros(record.lease_expiry))
      .Bind(absl::ToUnixMicros(record.queued_since))
      .Bind(record.delete_requested ? kDelete : int64_t{record.cancel_requested})
      .Bind(int64_t{record.lost_groups})
      .Bind(record.last_sequence);
}

// Detects a truncated last page, whose missing bytes SQLite reads as zeros without an error. If there is a log, the
// file may end anywhere, because the log has the rest.
absl::Status CheckWholePages(const std::string& path) {
  constexpr int64_t kPage = 4096;
  struct stat file, log;
  if (stat(path.c_str(), &file) != 0 || file.st_size % kPage == 0) return absl::OkStatus();
  if (stat(absl::StrCat(path, "-wal").c_str(), &log) == 0 && log.st_size > 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path.substr(path.rfind('/') + 1), ": truncated or not a database (", file.st_size,
                   " bytes); restore it from a backup, or move it and its .commits file away to start "
                   "empty"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJobTables>> SqliteJobTables::Open(const std::string& path, Clock& clock) {
  KINORA_RETURN_IF_ERROR(CheckWholePages(path));
  KINORA_ASSIGN_OR_RETURN(auto database, Database::Open(path));
  std::unique_ptr<SqliteJobTables> tables(new SqliteJobTables(std::move(database), clock));
  KINORA_RETURN_IF_ERROR(BringSchemaUpToDate(tables->database(), path));
  KINORA_RETURN_IF_ERROR(tables->CheckTables());
  return tables;
}

// Finds a damaged schema at the start, even if the file's structure is intact.
absl::Status SqliteJobTables::CheckTables() {
  constexpr char kJobs[] = "SELECT " KINORA_JOB_COLUMNS ", ordinal, " KINORA_JOB_IS_SOUND " FROM jobs LIMIT 0";
  for (const char* sql :
       {kJobs, "SELECT job, sequence, event, checksum FROM events LIMIT 0", "SELECT id, micros FROM expired LIMIT 0",
        "SELECT id, info, checksum FROM models LIMIT 0", "SELECT ordinal, place, run, checksum FROM speeds LIMIT 0",
        "SELECT sha256, bytes, media_type, expire_micros, checksum FROM inputs LIMIT 0",
        "SELECT store, number FROM commits LIMIT 0",
        "SELECT id, address, lease_micros, checksum FROM frontends LIMIT 0",
        "SELECT job, frontend, checksum FROM ties LIMIT 0"}) {
    if (const auto statement = database_->Prepare(sql); !statement.ok()) {
      return absl::DataLossError(
          absl::StrCat(std::string(statement.status().message()),
                       "; restore the file from a backup, or move it and its -wal, -shm and .commits files away to "
                       "start empty"));
    }
  }
  return absl::OkStatus();
}

absl::Status SqliteJobTables::NotFound(const JobId& id, const char* field) {
  constexpr size_t kShownId = 100;  // the client's text may be as long as a message
  absl::Status status = absl::NotFoundError(absl::StrCat(field, "no video \"", id.substr(0, kShownId), "\""));
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT 1 FROM expired WHERE id = ?1 UNION ALL "
                                                               "SELECT 1 FROM jobs WHERE id = ?1 AND hidden = 2"));
  KINORA_ASSIGN_OR_RETURN(const bool expired, select.Bind(id).Row());
  if (!expired) return status;
  return WithErrorInfo(absl::NotFoundError(absl::StrCat(field, "video \"", id, "\" has expired")), "EXPIRED");
}

absl::StatusOr<JobRecord> SqliteJobTables::Load(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT " KINORA_JOB_COLUMNS ", " KINORA_JOB_IS_SOUND
                                                               ", hidden FROM jobs WHERE id = ?"));
  KINORA_ASSIGN_OR_RETURN(const bool found, select.Bind(id).Row());
  const bool sound = found && select.Int(10) != 0;
  if (!found || (sound && select.Int(11) != 0)) return NotFound(id);  // `hidden` of a damaged record is meaningless
  return ReadRecord(select);
}

absl::Status SqliteJobTables::Insert(const JobRecord& record, const std::string& fingerprint,
                                     const v1::VideoEvent& event, const FrontendId& tied_to) {
  KINORA_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare(
          "INSERT INTO jobs (state, expire_micros, video, owner, lease_micros, queued_micros, "
          "cancel_requested, lost_groups, last_sequence, id, request_id, fingerprint, scheduling, detach) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?)"));
  BindState(record, insert);
  insert.Bind(record.video.id())
      .Bind(record.video.request_id())
      .Bind(fingerprint)
      .BindBlob(record.scheduling.SerializeAsString())
      .Bind(int64_t{record.detach});
  KINORA_RETURN_IF_ERROR(insert.Run());
  KINORA_RETURN_IF_ERROR(Seal(record.video.id()));
  if (!record.detach) KINORA_RETURN_IF_ERROR(FrontendTables(*database_).Tie(record.video.id(), tied_to));
  return AddEvent(event.video_id(), event.sequence(), event.SerializeAsString());
}

absl::Status SqliteJobTables::Save(const JobRecord& record, const v1::VideoEvent& event) {
  KINORA_RETURN_IF_ERROR(Update(record));
  if (event.event_case() != v1::VideoEvent::EVENT_NOT_SET) {
    KINORA_RETURN_IF_ERROR(AddEvent(record.video.id(), event.sequence(), event.SerializeAsString()));
  }
  if (!IsTerminal(record.video.state())) return absl::OkStatus();
  if (!record.detach) KINORA_RETURN_IF_ERROR(FrontendTables(*database_).Untie(record.video.id()));
  return record.delete_requested ? Hide(record.video.id()) : absl::OkStatus();
}

absl::Status SqliteJobTables::Seal(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Statement update, database_->Prepare("UPDATE jobs SET checksum = " KINORA_JOB_CHECKSUM(
                                                "hidden", "request_id") " WHERE id = ?"));
  return update.Bind(id).Run();
}

absl::Status SqliteJobTables::Update(const JobRecord& record) {
  KINORA_ASSIGN_OR_RETURN(
      Statement update,
      database_->Prepare("UPDATE jobs SET state = ?, expire_micros = ?, video = ?, owner = ?, lease_micros = ?, "
                         "queued_micros = ?, cancel_requested = ?, lost_groups = ?, last_sequence = ? WHERE id = ?"));
  BindState(record, update);
  KINORA_RETURN_IF_ERROR(update.Bind(record.video.id()).Run());
  return Seal(record.video.id());
}

absl::Status SqliteJobTables::AddEvent(const JobId& id, int64_t sequence, const std::string& event) {
  KINORA_ASSIGN_OR_RETURN(Statement insert, database_->Prepare("INSERT INTO events (job, sequence, event, checksum) "
                                                               "VALUES (?1, ?2, ?3, record_checksum(?1, ?2, ?3))"));
  return insert.Bind(id).Bind(sequence).BindBlob(event).Run();
}

absl::StatusOr<std::vector<v1::VideoEvent>> SqliteJobTables::EventsAfter(const JobId& id, int64_t sequence) {
  KINORA_ASSIGN_OR_RETURN(
      Statement select, database_->Prepare("SELECT event, checksum = record_checksum(job, sequence, event) FROM events "
                                           "WHERE job = ? AND sequence > ? ORDER BY sequence"));
  select.Bind(id).Bind(sequence);
  std::vector<v1::VideoEvent> events;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return events;
    KINORA_ASSIGN_OR_RETURN(events.emplace_back(), ParseRow<v1::VideoEvent>(select, "event"));
  }
}

absl::StatusOr<std::optional<SqliteJobTables::RequestKey>> SqliteJobTables::FindRequest(const std::string& request_id) {
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT id, fingerprint, " KINORA_JOB_IS_SOUND
                                                               " FROM jobs WHERE request_id = ?"));
  KINORA_ASSIGN_OR_RETURN(const bool found, select.Bind(request_id).Row());
  if (!found) return std::nullopt;
  if (select.Int(2) == 0) return Damaged(select.Bytes(0));
  return RequestKey{.id = select.Bytes(0), .fingerprint = select.Bytes(1)};
}

absl::StatusOr<JobPage> SqliteJobTables::List(const ListOptions& options) {
  std::optional<int64_t> after;
  if (!options.after_id.empty()) {
    KINORA_ASSIGN_OR_RETURN(Statement select,
                            database_->Prepare("SELECT ordinal FROM jobs WHERE id = ? AND hidden = 0"));
    KINORA_ASSIGN_OR_RETURN(const bool found, select.Bind(options.after_id).Row());
    if (!found) return NotFound(options.after_id, "after_id: ");
    after = select.Int(0);
  }
  return ListJobs(*database_, options, after);
}

absl::StatusOr<std::vector<JobRecord>> SqliteJobTables::Unfinished() {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database_->Prepare("SELECT " KINORA_JOB_COLUMNS ", " KINORA_JOB_IS_SOUND
                                             " FROM jobs WHERE state < 4 AND hidden = 0 ORDER BY ordinal"));
  return ReadRecords(select);
}

absl::StatusOr<std::vector<JobRecord>> SqliteJobTables::LeasedToOthers(const FrontendId& owner) {
  KINORA_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT " KINORA_JOB_COLUMNS ", " KINORA_JOB_IS_SOUND
                         " FROM jobs WHERE owner <> '' AND owner <> ? AND hidden = 0 AND " KINORA_JOB_IS_SOUND
                         " ORDER BY ordinal"));
  return ReadRecords(select.Bind(owner));
}

absl::StatusOr<std::vector<JobRecord>> SqliteJobTables::LostRuns(const FrontendId& owner) {
  KINORA_ASSIGN_OR_RETURN(std::vector<JobRecord> records, LeasedToOthers(owner));
  std::erase_if(records, [now = Now()](const JobRecord& record) { return record.lease_expiry > now; });
  return records;
}

absl::Status SqliteJobTables::LogDamaged() {
  KINORA_ASSIGN_OR_RETURN(Statement jobs, database_->Prepare("SELECT id FROM jobs WHERE NOT " KINORA_JOB_IS_SOUND));
  KINORA_ASSIGN_OR_RETURN(const std::vector<std::string> job_ids, ReadIds(jobs));
  for (const JobId& id : job_ids) {
    Log(Severity::kError, "job_damaged", {{"job", id}, {"why", std::string(Damaged(id).message())}});
  }
  KINORA_ASSIGN_OR_RETURN(Statement models,
                          database_->Prepare("SELECT id FROM models WHERE checksum != record_checksum(id, info)"));
  KINORA_ASSIGN_OR_RETURN(const std::vector<std::string> model_ids, ReadIds(models));
  for (const std::string& id : model_ids) Log(Severity::kError, "model_damaged", {{"model", id}});
  return absl::OkStatus();
}

absl::StatusOr<bool> SqliteJobTables::Knows(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT 1 FROM jobs WHERE id = ?"));
  return select.Bind(id).Row();
}

absl::Status SqliteJobTables::Hide(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(
      Statement update,
      database_->Prepare("UPDATE jobs SET hidden = 1, request_id = NULL, checksum = " KINORA_JOB_CHECKSUM(
          "1", "NULL") " WHERE id = ?"));
  return update.Bind(id).Run();
}

absl::Status SqliteJobTables::HideExpired(absl::Time now) {
  KINORA_ASSIGN_OR_RETURN(
      Statement update,
      database_->Prepare("UPDATE jobs SET hidden = 2, request_id = NULL, checksum = " KINORA_JOB_CHECKSUM(
          "2", "NULL") " WHERE hidden = 0 AND expire_micros <= ? AND " KINORA_JOB_IS_SOUND));
  KINORA_RETURN_IF_ERROR(update.Bind(absl::ToUnixMicros(now)).Run());
  KINORA_ASSIGN_OR_RETURN(Statement forget, database_->Prepare("DELETE FROM expired WHERE micros < ?"));
  return forget.Bind(absl::ToUnixMicros(now - kKeepExpiredIds)).Run();
}

absl::StatusOr<std::vector<JobId>> SqliteJobTables::Hidden() {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database_->Prepare("SELECT id FROM jobs WHERE hidden > 0 AND " KINORA_JOB_IS_SOUND));
  return ReadIds(select);
}

absl::Status SqliteJobTables::Purge(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Statement note, database_->Prepare("INSERT OR REPLACE INTO expired (id, micros) "
                                                             "SELECT id, ? FROM jobs WHERE id = ? AND hidden = 2"));
  KINORA_RETURN_IF_ERROR(note.Bind(absl::ToUnixMicros(Now())).Bind(id).Run());
  KINORA_ASSIGN_OR_RETURN(Statement events, database_->Prepare("DELETE FROM events WHERE job = ?1 AND EXISTS "
                                                               "(SELECT 1 FROM jobs WHERE id = ?1 AND hidden > 0)"));
  KINORA_RETURN_IF_ERROR(events.Bind(id).Run());
  KINORA_ASSIGN_OR_RETURN(Statement job, database_->Prepare("DELETE FROM jobs WHERE id = ? AND hidden > 0"));
  KINORA_RETURN_IF_ERROR(job.Bind(id).Run());
  return FrontendTables(*database_).UntieUnlessKnown(id);  // the job was damaged when it was hidden
}

}  // namespace kinora

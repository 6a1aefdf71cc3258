#include "server/frontend/jobs/job_tables.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/jobs/job_schema.h"

namespace kinora {
namespace {

constexpr size_t kMaxPageBytes = 2 << 20;  // a gRPC client takes 4 MiB; prompts alone can be 32 KiB a video
constexpr int64_t kMostSearched = 1000;    // records of a page that are looked through for labels
constexpr int64_t kSpeedsKeptInAll = 5000;
constexpr int64_t kMostCounted =
    1 << 30;  // events, attempts and lost groups of a job: more is damage, and must not wrap
constexpr absl::Duration kKeepExpiredIds = absl::Hours(24 * 30);

#define KINORA_JOB_COLUMNS \
  "id, video, scheduling, detach, owner, lease_micros, queued_micros, cancel_requested, lost_groups, last_sequence"

template <typename Message>
absl::StatusOr<Message> Parse(const std::string& bytes, const char* what) {
  Message message;
  if (!message.ParseFromString(bytes)) return absl::DataLossError(absl::StrCat("jobs.db: a damaged ", what));
  return message;
}

absl::Status Damaged(const JobId& id) {  // the id may be damaged, too
  return absl::DataLossError(
      absl::StrCat("jobs.db: the record of job \"", absl::CHexEscape(id), "\" is damaged; delete the job"));
}

absl::StatusOr<v1::Video> ReadVideo(const JobId& id, const std::string& bytes) {
  v1::Video video;
  if (!video.ParseFromString(bytes) || video.id() != id) return Damaged(id);
  return video;
}

absl::StatusOr<JobRecord> ReadRecord(const Statement& row) {
  const JobId id = row.Bytes(0);
  JobRecord record;
  KINORA_ASSIGN_OR_RETURN(record.video, ReadVideo(id, row.Bytes(1)));
  if (!record.scheduling.ParseFromString(row.Bytes(2))) return Damaged(id);
  record.detach = row.Int(3) != 0;
  record.owner = row.Bytes(4);
  record.lease_expiry = absl::FromUnixMicros(row.Int(5));
  record.queued_since = absl::FromUnixMicros(row.Int(6));
  record.cancel_requested = row.Int(7) != 0;
  const auto counted = [](int64_t n) { return n >= 0 && n < kMostCounted; };
  if (!counted(record.video.attempt()) || !counted(row.Int(8)) || !counted(row.Int(9))) return Damaged(id);
  record.lost_groups = static_cast<int>(row.Int(8));
  record.last_sequence = row.Int(9);
  return record;
}

v1::Video DamagedVideo(const JobId& id) {
  v1::Video video;
  video.set_id(absl::CHexEscape(id));  // text, whatever the bytes
  video.set_state(v1::Video::FAILED);
  *video.mutable_error() = ToRpcStatus(Damaged(id));
  return video;
}

int64_t ExpireMicros(const v1::Video& video) {  // a job that has not ended never expires
  return absl::ToUnixMicros(video.has_expire_time() ? FromProto(video.expire_time()) : absl::InfiniteFuture());
}

// The columns that change, in the order of both statements below.
void BindState(const JobRecord& record, Statement& statement) {
  statement.Bind(static_cast<int64_t>(record.video.state()))
      .Bind(ExpireMicros(record.video))
      .BindBlob(record.video.SerializeAsString())
      .Bind(record.owner)
      .Bind(absl::ToUnixMicros(record.lease_expiry))
      .Bind(absl::ToUnixMicros(record.queued_since))
      .Bind(int64_t{record.cancel_requested})
      .Bind(int64_t{record.lost_groups})
      .Bind(record.last_sequence);
}

// SQLite reads what is missing of the last page as zeros and finds nothing wrong. With a log beside it the file may end
// anywhere: the log holds what is missing.
absl::Status CheckWholePages(const std::string& path) {
  constexpr int64_t kPage = 4096;
  struct stat file, log;
  if (stat(path.c_str(), &file) != 0 || file.st_size % kPage == 0) return absl::OkStatus();
  if (stat(absl::StrCat(path, "-wal").c_str(), &log) == 0 && log.st_size > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path.substr(path.rfind('/') + 1), ": truncated or no database (",
                                          file.st_size,
                                          " bytes); restore it from a backup, or move it away to start empty"));
}

absl::StatusOr<int64_t> ParsePageToken(const std::string& token) {
  int64_t ordinal = 0;
  absl::string_view digits = token;
  if (!absl::ConsumePrefix(&digits, "before-") || !absl::SimpleAtoi(digits, &ordinal) || ordinal <= 0) {
    return InvalidField("page_token", "not one that ListVideos gave");
  }
  return ordinal;
}

bool HasLabels(const v1::Video& video, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto it = video.labels().find(label.first);
    return it != video.labels().end() && it->second == label.second;
  });
}

// After a text: behind all that begin with it, as no character is behind U+10FFFF.
constexpr char kBehindAll[] = "\xf4\x8f\xbf\xbf";

}  // namespace

absl::StatusOr<std::unique_ptr<JobTables>> JobTables::Open(const std::string& path) {
  KINORA_RETURN_IF_ERROR(CheckWholePages(path));
  KINORA_ASSIGN_OR_RETURN(auto database, Database::Open(path));
  std::unique_ptr<JobTables> tables(new JobTables(std::move(database)));
  KINORA_RETURN_IF_ERROR(BringSchemaUpToDate(tables->database(), path));
  KINORA_RETURN_IF_ERROR(tables->CheckTables());
  return tables;
}

// A schema that was damaged without harm to the file's structure is found at the start, not by a client.
absl::Status JobTables::CheckTables() {
  constexpr char kJobs[] =
      "SELECT " KINORA_JOB_COLUMNS ", ordinal, state, hidden, expire_micros, request_id, fingerprint FROM jobs LIMIT 0";
  for (const char* sql :
       {kJobs, "SELECT job, sequence, event FROM events LIMIT 0", "SELECT id, micros FROM expired LIMIT 0",
        "SELECT id, info FROM models LIMIT 0", "SELECT ordinal, place, run FROM speeds LIMIT 0",
        "SELECT sha256, bytes, media_type, expire_micros FROM inputs LIMIT 0"}) {
    if (const auto statement = database_->Prepare(sql); !statement.ok()) {
      return absl::DataLossError(
          absl::StrCat(std::string(statement.status().message()),
                       "; restore the file from a backup, or move it and its -wal and -shm files away to start empty"));
    }
  }
  return absl::OkStatus();
}

absl::Status JobTables::NotFound(const JobId& id) {
  constexpr size_t kShownId = 100;  // a client's text may be anything up to the size of a message
  absl::Status status = absl::NotFoundError(absl::StrCat("no video \"", id.substr(0, kShownId), "\""));
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT 1 FROM expired WHERE id = ?1 UNION ALL "
                                                               "SELECT 1 FROM jobs WHERE id = ?1 AND hidden = 2"));
  KINORA_ASSIGN_OR_RETURN(const bool expired, select.Bind(id).Row());
  if (!expired) return status;
  return WithErrorInfo(absl::NotFoundError(absl::StrCat("video \"", id, "\" has expired")), "EXPIRED");
}

absl::StatusOr<JobRecord> JobTables::Load(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database_->Prepare("SELECT " KINORA_JOB_COLUMNS " FROM jobs WHERE id = ? AND hidden = 0"));
  KINORA_ASSIGN_OR_RETURN(const bool found, select.Bind(id).Row());
  if (!found) return NotFound(id);
  return ReadRecord(select);
}

absl::Status JobTables::Insert(const JobRecord& record, const std::string& fingerprint) {
  KINORA_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare(
          "INSERT INTO jobs (state, expire_micros, video, owner, lease_micros, queued_micros, "
          "cancel_requested, lost_groups, last_sequence, id, request_id, fingerprint, scheduling, detach) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?)"));
  BindState(record, insert);
  return insert.Bind(record.video.id())
      .Bind(record.video.request_id())
      .Bind(fingerprint)
      .BindBlob(record.scheduling.SerializeAsString())
      .Bind(int64_t{record.detach})
      .Run();
}

absl::Status JobTables::Update(const JobRecord& record) {
  KINORA_ASSIGN_OR_RETURN(
      Statement update,
      database_->Prepare("UPDATE jobs SET state = ?, expire_micros = ?, video = ?, owner = ?, lease_micros = ?, "
                         "queued_micros = ?, cancel_requested = ?, lost_groups = ?, last_sequence = ? WHERE id = ?"));
  BindState(record, update);
  return update.Bind(record.video.id()).Run();
}

absl::Status JobTables::AddEvent(const v1::VideoEvent& event) {
  KINORA_ASSIGN_OR_RETURN(Statement insert,
                          database_->Prepare("INSERT INTO events (job, sequence, event) VALUES (?, ?, ?)"));
  return insert.Bind(event.video_id()).Bind(event.sequence()).BindBlob(event.SerializeAsString()).Run();
}

absl::StatusOr<std::vector<v1::VideoEvent>> JobTables::EventsAfter(const JobId& id, int64_t sequence) {
  KINORA_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT event FROM events WHERE job = ? AND sequence > ? ORDER BY sequence"));
  select.Bind(id).Bind(sequence);
  std::vector<v1::VideoEvent> events;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return events;
    KINORA_ASSIGN_OR_RETURN(events.emplace_back(), Parse<v1::VideoEvent>(select.Bytes(0), "event"));
  }
}

absl::StatusOr<std::optional<JobTables::RequestKey>> JobTables::FindRequest(const std::string& request_id) {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database_->Prepare("SELECT id, fingerprint FROM jobs WHERE request_id = ?"));
  KINORA_ASSIGN_OR_RETURN(const bool found, select.Bind(request_id).Row());
  if (!found) return std::nullopt;
  return RequestKey{.id = select.Bytes(0), .fingerprint = select.Bytes(1)};
}

// Texts are compared byte by byte. The + keeps the order of ordinals from being read from the table itself. Those that
// have not ended have an index of their own, so that a list of what waits does not read all that ever ran.
const char* ListStatement(bool by_prefix, bool unfinished) {
  if (by_prefix) {
    return "SELECT ordinal, video, id FROM jobs WHERE id >= ?3 AND id < ?4 AND +ordinal < ?1 AND hidden = 0 "
           "AND (?2 >> state) & 1 ORDER BY +ordinal DESC LIMIT ?5";
  }
  return unfinished
             ? "SELECT ordinal, video, id FROM jobs INDEXED BY jobs_unfinished WHERE ordinal < ?1 AND hidden = 0 "
               "AND state < 4 AND (?2 >> state) & 1 ORDER BY ordinal DESC LIMIT ?5"
             : "SELECT ordinal, video, id FROM jobs WHERE ordinal < ?1 AND hidden = 0 AND (?2 >> state) & 1 "
               "ORDER BY ordinal DESC LIMIT ?5";
}

absl::StatusOr<JobPage> JobTables::List(const ListOptions& options) {
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!options.page_token.empty()) {
    KINORA_ASSIGN_OR_RETURN(before, ParsePageToken(options.page_token));
  }
  int64_t wanted = options.states.empty() ? -1 : 0;  // one bit a state
  for (const v1::Video::State state : options.states) wanted |= int64_t{1} << state;
  const bool unfinished = wanted >= 0 && wanted < int64_t{1} << v1::Video::COMPLETED;  // the first of those that ended
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare(ListStatement(!options.id_prefix.empty(), unfinished)));
  const int64_t searched = options.labels.empty() ? options.page_size : kMostSearched;
  select.Bind(before).Bind(wanted).Bind(options.id_prefix).Bind(absl::StrCat(options.id_prefix, kBehindAll));
  select.Bind(searched + 1);  // one more: whether a page follows
  JobPage page;
  int64_t rows = 0;
  int64_t last = 0;
  size_t bytes = 0;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return page;
    if (std::ssize(page.videos) == options.page_size || rows++ == searched || bytes > kMaxPageBytes) {
      page.next_page_token = absl::StrCat("before-", last);
      return page;
    }
    last = select.Int(0);
    const std::string video = select.Bytes(1);
    absl::StatusOr<v1::Video> parsed = ReadVideo(select.Bytes(2), video);
    if (!parsed.ok()) parsed = DamagedVideo(select.Bytes(2));
    if (!HasLabels(*parsed, options.labels)) continue;
    bytes += video.size();
    page.videos.push_back(*std::move(parsed));
  }
}

absl::StatusOr<std::vector<JobRecord>> JobTables::Unfinished() {
  KINORA_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT " KINORA_JOB_COLUMNS " FROM jobs WHERE state < 4 AND hidden = 0 ORDER BY ordinal"));
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

absl::Status JobTables::Hide(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Statement update,
                          database_->Prepare("UPDATE jobs SET hidden = 1, request_id = NULL WHERE id = ?"));
  return update.Bind(id).Run();
}

absl::Status JobTables::HideExpired(absl::Time now) {
  KINORA_ASSIGN_OR_RETURN(Statement update, database_->Prepare("UPDATE jobs SET hidden = 2, request_id = NULL "
                                                               "WHERE hidden = 0 AND expire_micros <= ?"));
  KINORA_RETURN_IF_ERROR(update.Bind(absl::ToUnixMicros(now)).Run());
  KINORA_ASSIGN_OR_RETURN(Statement forget, database_->Prepare("DELETE FROM expired WHERE micros < ?"));
  return forget.Bind(absl::ToUnixMicros(now - kKeepExpiredIds)).Run();
}

absl::StatusOr<std::vector<JobId>> JobTables::Hidden() {
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT id FROM jobs WHERE hidden > 0"));
  std::vector<JobId> ids;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return ids;
    ids.push_back(select.Bytes(0));
  }
}

absl::Status JobTables::Purge(const JobId& id, absl::Time now) {
  KINORA_ASSIGN_OR_RETURN(Statement note, database_->Prepare("INSERT OR REPLACE INTO expired (id, micros) "
                                                             "SELECT id, ? FROM jobs WHERE id = ? AND hidden = 2"));
  KINORA_RETURN_IF_ERROR(note.Bind(absl::ToUnixMicros(now)).Bind(id).Run());
  KINORA_ASSIGN_OR_RETURN(Statement events, database_->Prepare("DELETE FROM events WHERE job = ?1 AND EXISTS "
                                                               "(SELECT 1 FROM jobs WHERE id = ?1 AND hidden > 0)"));
  KINORA_RETURN_IF_ERROR(events.Bind(id).Run());
  KINORA_ASSIGN_OR_RETURN(Statement job, database_->Prepare("DELETE FROM jobs WHERE id = ? AND hidden > 0"));
  return job.Bind(id).Run();
}

absl::Status JobTables::PutModel(const v1::ModelInfo& model) {
  KINORA_ASSIGN_OR_RETURN(Statement insert,
                          database_->Prepare("INSERT OR REPLACE INTO models (id, info) VALUES (?, ?)"));
  return insert.Bind(model.id()).BindBlob(model.SerializeAsString()).Run();
}

absl::StatusOr<std::vector<v1::ModelInfo>> JobTables::Models() {
  KINORA_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT info FROM models ORDER BY id"));
  std::vector<v1::ModelInfo> models;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return models;
    KINORA_ASSIGN_OR_RETURN(models.emplace_back(), Parse<v1::ModelInfo>(select.Bytes(0), "model"));
  }
}

absl::Status JobTables::AddSpeed(const std::string& place, const v1::RunSpeed& run, int64_t kept) {
  KINORA_ASSIGN_OR_RETURN(Statement insert, database_->Prepare("INSERT INTO speeds (place, run) VALUES (?, ?)"));
  KINORA_RETURN_IF_ERROR(insert.Bind(place).BindBlob(run.SerializeAsString()).Run());
  KINORA_ASSIGN_OR_RETURN(Statement old,
                          database_->Prepare("DELETE FROM speeds WHERE place = ?1 AND ordinal <= (SELECT ordinal FROM "
                                             "speeds WHERE place = ?1 ORDER BY ordinal DESC LIMIT 1 OFFSET ?2)"));
  KINORA_RETURN_IF_ERROR(old.Bind(place).Bind(kept).Run());
  // And those of places where nothing runs any more.
  KINORA_ASSIGN_OR_RETURN(
      Statement oldest,
      database_->Prepare("DELETE FROM speeds WHERE ordinal <= (SELECT max(ordinal) FROM speeds) - ?"));
  return oldest.Bind(kSpeedsKeptInAll).Run();
}

absl::StatusOr<v1::SpeedHistory> JobTables::Speeds(const std::string& place) {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database_->Prepare("SELECT run FROM speeds WHERE place = ? ORDER BY ordinal"));
  select.Bind(place);
  v1::SpeedHistory history;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return history;
    absl::StatusOr<v1::RunSpeed> run = Parse<v1::RunSpeed>(select.Bytes(0), "speed");
    if (run.ok()) *history.add_runs() = *std::move(run);  // estimates are the worse for it, nothing else
  }
}

absl::Status JobTables::PutInput(const InputRecord& input) {
  KINORA_ASSIGN_OR_RETURN(Statement insert,
                          database_->Prepare("INSERT OR REPLACE INTO inputs (sha256, bytes, media_type, expire_micros) "
                                             "VALUES (?, ?, ?, ?)"));
  return insert.Bind(input.sha256)
      .Bind(input.bytes)
      .Bind(input.media_type)
      .Bind(absl::ToUnixMicros(input.expiry))
      .Run();
}

absl::Status JobTables::RemoveInput(const std::string& sha256) {
  KINORA_ASSIGN_OR_RETURN(Statement remove, database_->Prepare("DELETE FROM inputs WHERE sha256 = ?"));
  return remove.Bind(sha256).Run();
}

absl::StatusOr<std::vector<InputRecord>> JobTables::Inputs() {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database_->Prepare("SELECT sha256, bytes, media_type, expire_micros FROM inputs"));
  std::vector<InputRecord> inputs;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return inputs;
    inputs.push_back({.sha256 = select.Bytes(0),
                      .bytes = select.Int(1),
                      .media_type = select.Bytes(2),
                      .expiry = absl::FromUnixMicros(select.Int(3))});
  }
}

}  // namespace kinora

#include "server/frontend/jobs/sqlite_job_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/job_schema.h"
#include "server/frontend/jobs/lost_commits.h"
#include "server/frontend/jobs/random_id.h"

namespace kinora {
namespace {

constexpr char kInMemory[] = ":memory:";
constexpr int kReaders = 2;
constexpr size_t kMaxBatch = 256;  // writes in one commit

// Writes nothing before it has checked for lost commits, and never reuses the number of a lost one.
absl::StatusOr<std::unique_ptr<JobTables>> OpenWhole(const std::string& path, const CommitMarkFile& mark,
                                                     int64_t accept_lost_commits) {
  int64_t last = 0;
  if (path != kInMemory) {
    KINORA_ASSIGN_OR_RETURN(last, CheckCommits(path, mark.Read(), accept_lost_commits));
  }
  KINORA_ASSIGN_OR_RETURN(auto tables, JobTables::Open(path));
  KINORA_RETURN_IF_ERROR(CheckIntegrity(tables->database()));
  KINORA_ASSIGN_OR_RETURN(const CommitMark stored, ReadLastCommit(tables->database()));
  if (stored.number < last) KINORA_RETURN_IF_ERROR(WriteCommitNumber(tables->database(), last));
  KINORA_RETURN_IF_ERROR(tables->LogDamaged());
  return tables;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJobStore>> SqliteJobStore::Open(const std::string& path, const JobRules& rules,
                                                                     Clock& clock, EventListener listener,
                                                                     JobCommitterOptions options) {
  const bool on_disk = path != kInMemory;
  std::unique_ptr<SqliteJobStore> store(new SqliteJobStore(rules, clock));
  JobCommitter::Files files{.reserve = DiskReserve(on_disk ? absl::StrCat(path, ".reserve") : ""),
                            .mark = CommitMarkFile(on_disk ? absl::StrCat(path, ".commits") : "")};
  const auto open = [&] { return OpenWhole(path, files.mark, options.accept_lost_commits); };
  absl::StatusOr<std::unique_ptr<JobTables>> opened = open();
  // On a full disk it starts with the space of the reserve, because only a running frontend can free space.
  if (absl::IsResourceExhausted(opened.status()) && files.reserve.Release()) {
    while (files.reserve.Release()) {
    }
    opened = open();
  }
  KINORA_RETURN_IF_ERROR(opened.status());
  KINORA_ASSIGN_OR_RETURN(files.last, ReadLastCommit((*opened)->database()));
  for (int i = 0; on_disk && i < kReaders; ++i) {
    KINORA_ASSIGN_OR_RETURN(store->reader_tables_.emplace_back(), JobTables::Open(path));
  }
  for (const char* suffix : {"", "-wal"}) {
    if (on_disk) KINORA_RETURN_IF_ERROR(options.watch.Add(absl::StrCat(path, suffix)));
  }
  store->committer_ = std::make_unique<JobCommitter>(*std::move(opened), std::move(files), clock, std::move(listener),
                                                     std::move(options));
  store->writer_ = std::thread([self = store.get()] { self->RunWriter(); });
  for (const auto& tables : store->reader_tables_) {
    store->readers_.emplace_back([self = store.get(), &tables = *tables] { self->RunReader(tables); });
  }
  return store;
}

SqliteJobStore::~SqliteJobStore() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (writer_.joinable()) writer_.join();
  for (std::thread& reader : readers_) reader.join();
}

void SqliteJobStore::PostWrite(Room room, absl::AnyInvocable<absl::Status(JobTables&, Events&)> apply, Finished done) {
  absl::MutexLock lock(&mu_);
  writes_.push_back({.room = room, .apply = std::move(apply), .finish = std::move(done)});
  pending_ += 1;
}

template <typename T>
void SqliteJobStore::PostWrite(Room room, absl::AnyInvocable<absl::StatusOr<T>(JobTables&, Events&)> apply,
                               Done<T> done) {
  auto result = std::make_shared<absl::StatusOr<T>>(absl::UnknownError("not run"));
  PostWrite(
      room,
      [apply = std::move(apply), result](JobTables& tables, Events& events) mutable {
        *result = apply(tables, events);
        return result->status();
      },
      [done = std::move(done), result](absl::Status status) mutable {
        if (status.ok()) {
          done(*std::move(result));
        } else {
          done(std::move(status));
        }
      });
}

template <typename T>
void SqliteJobStore::PostRead(absl::AnyInvocable<absl::StatusOr<T>(JobTables&)> read, Done<T> done) {
  if (reader_tables_.empty()) {
    PostWrite<T>(
        Room::kFrees, [read = std::move(read)](JobTables& tables, Events&) mutable { return read(tables); },
        std::move(done));
    return;
  }
  absl::MutexLock lock(&mu_);
  reads_.push_back([read = std::move(read), done = std::move(done)](JobTables& tables) mutable { done(read(tables)); });
  pending_ += 1;
}

void SqliteJobStore::RunWriter() {
  const auto work = [this] {
    mu_.AssertHeld();
    return !writes_.empty() || stopping_;
  };
  while (true) {
    std::deque<StoreWrite> batch;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&work));
      if (writes_.empty()) return;
      while (!writes_.empty() && batch.size() < kMaxBatch) {
        batch.push_back(std::move(writes_.front()));
        writes_.pop_front();
      }
    }
    committer_->Commit(batch);
    absl::MutexLock lock(&mu_);
    pending_ -= static_cast<int64_t>(batch.size());
  }
}

void SqliteJobStore::RunReader(JobTables& tables) {
  const auto work = [this] {
    mu_.AssertHeld();
    return !reads_.empty() || stopping_;
  };
  while (true) {
    Read read;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&work));
      if (reads_.empty()) return;
      read = std::move(reads_.front());
      reads_.pop_front();
    }
    read(tables);
    absl::MutexLock lock(&mu_);
    pending_ -= 1;
  }
}

template <typename Transition>
absl::StatusOr<JobRecord> SqliteJobStore::Change(JobTables& tables, Events& events, const JobId& id,
                                                 Transition transition) {
  KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(id));
  v1::VideoEvent event;
  KINORA_RETURN_IF_ERROR(transition(clock_.Now(), record, &event));
  KINORA_RETURN_IF_ERROR(tables.Update(record));
  if (event.event_case() != v1::VideoEvent::EVENT_NOT_SET) {
    KINORA_RETURN_IF_ERROR(tables.AddEvent(event));
    events.push_back(std::move(event));
  }
  if (record.delete_requested && IsTerminal(record.video.state())) KINORA_RETURN_IF_ERROR(tables.Hide(id));
  return record;
}

namespace {

absl::StatusOr<std::optional<Created>> CreatedBefore(JobTables& tables, const v1::CreateVideoRequest& request,
                                                     const std::string& fingerprint) {
  if (request.request_id().empty()) return std::nullopt;
  KINORA_ASSIGN_OR_RETURN(const auto known, tables.FindRequest(request.request_id()));
  if (!known.has_value()) return std::nullopt;
  if (known->fingerprint != fingerprint) {
    return WithErrorInfo(absl::AlreadyExistsError(absl::StrCat("request_id: \"", request.request_id(),
                                                               "\" was already used for a different request")),
                         "REQUEST_ID_REUSED", {{"video_id", known->id}, {"fingerprint", known->fingerprint}});
  }
  KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(known->id));
  return Created{.video = std::move(record.video), .replayed = true};
}

}  // namespace

void SqliteJobStore::Create(const v1::CreateVideoRequest& request, const v1::Generation& effective,
                            double estimated_seconds, Done<Created> done) {
  PostWrite<Created>(
      Room::kTakes,
      [this, request, effective, estimated_seconds](JobTables& tables, Events& events) -> absl::StatusOr<Created> {
        const std::string fingerprint = Fingerprint(request);
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(tables, request, fingerprint));
        if (known.has_value()) return *std::move(known);
        v1::VideoEvent event;
        JobRecord record = NewJob(RandomId(), request, effective, estimated_seconds, clock_.Now(), &event);
        KINORA_RETURN_IF_ERROR(tables.Insert(record, fingerprint));
        KINORA_RETURN_IF_ERROR(tables.AddEvent(event));
        events.push_back(std::move(event));
        return Created{.video = std::move(record.video)};
      },
      std::move(done));
}

void SqliteJobStore::FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) {
  PostRead<Created>(
      [request](JobTables& tables) -> absl::StatusOr<Created> {
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(tables, request, Fingerprint(request)));
        if (!known.has_value()) return absl::NotFoundError("request_id: no job was created with it");
        return *std::move(known);
      },
      std::move(done));
}

void SqliteJobStore::Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) {
  PostWrite<Claimed>(
      Room::kTakes,
      [this, id, owner = std::string(owner), lease](JobTables& tables, Events& events) -> absl::StatusOr<Claimed> {
        KINORA_ASSIGN_OR_RETURN(
            JobRecord record, Change(tables, events, id, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
              return kinora::Claim(owner, lease, now, record, event);
            }));
        return Claimed{.attempt = CurrentAttempt(record), .video = std::move(record.video)};
      },
      std::move(done));
}

void SqliteJobStore::Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) {
  PostWrite<Lease>(
      Room::kTakes,
      [this, attempt, lease](JobTables& tables, Events& events) -> absl::StatusOr<Lease> {
        KINORA_ASSIGN_OR_RETURN(const JobRecord record, Change(tables, events, attempt.id,
                                                               [&](absl::Time now, JobRecord& record, v1::VideoEvent*) {
                                                                 return kinora::Renew(attempt, lease, now, record);
                                                               }));
        return Lease{.expiry = record.lease_expiry, .cancel_requested = record.cancel_requested};
      },
      std::move(done));
}

void SqliteJobStore::Append(const Attempt& attempt, const v1::VideoEvent& added, Finished done) {
  PostWrite(
      Room::kTakes,
      [this, attempt, added](JobTables& tables, Events& events) {
        return Change(tables, events, attempt.id,
                      [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
                        return kinora::Append(attempt, added, now, record, event);
                      })
            .status();
      },
      std::move(done));
}

void SqliteJobStore::Finish(const Attempt& attempt, const Outcome& outcome, Finished done) {
  PostWrite(
      Room::kFrees,
      [this, attempt, outcome](JobTables& tables, Events& events) {
        return Change(tables, events, attempt.id,
                      [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
                        return kinora::Finish(attempt, outcome, rules_, now, record, event);
                      })
            .status();
      },
      std::move(done));
}

void SqliteJobStore::Requeue(const Attempt& attempt, const Release& release, Done<v1::Video> done) {
  PostWrite<v1::Video>(
      Room::kTakes,
      [this, attempt, release](JobTables& tables, Events& events) -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(
            JobRecord record,
            Change(tables, events, attempt.id, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
              return kinora::Requeue(attempt, release, rules_, now, record, event);
            }));
        return std::move(record.video);
      },
      std::move(done));
}

void SqliteJobStore::Cancel(const JobId& id, Done<v1::Video> done) {
  PostWrite<v1::Video>(
      Room::kFrees,
      [this, id](JobTables& tables, Events& events) -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(JobRecord present, tables.Load(id));
        const bool noted = present.cancel_requested && present.video.state() != v1::Video::QUEUED;
        if (noted || IsTerminal(present.video.state())) return std::move(present.video);  // nothing to write
        KINORA_ASSIGN_OR_RETURN(
            JobRecord record, Change(tables, events, id, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
              return kinora::Cancel(rules_, now, record, event);
            }));
        return std::move(record.video);
      },
      std::move(done));
}

void SqliteJobStore::FailQueued(const JobId& id, const google::rpc::Status& error, Done<v1::Video> done) {
  PostWrite<v1::Video>(
      Room::kFrees,
      [this, id, error](JobTables& tables, Events& events) -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(
            JobRecord record, Change(tables, events, id, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
              return kinora::FailQueued(error, rules_, now, record, event);
            }));
        return std::move(record.video);
      },
      std::move(done));
}

namespace {

// Hides the job and returns nullopt if it has ended, or if its record is damaged and can only be deleted. Otherwise
// returns the record.
absl::StatusOr<std::optional<JobRecord>> HideUnlessActive(JobTables& tables, const JobId& id) {
  absl::StatusOr<JobRecord> record = tables.Load(id);
  if (!record.ok() && !absl::IsDataLoss(record.status())) return record.status();
  if (record.ok() && !IsTerminal(record->video.state())) return *std::move(record);
  KINORA_RETURN_IF_ERROR(tables.Hide(id));
  return std::nullopt;
}

}  // namespace

void SqliteJobStore::Delete(const JobId& id, Finished done) {
  PostWrite(
      Room::kFrees,
      [id](JobTables& tables, Events&) -> absl::Status {
        KINORA_ASSIGN_OR_RETURN(const std::optional<JobRecord> active, HideUnlessActive(tables, id));
        if (!active.has_value()) return absl::OkStatus();
        return absl::FailedPreconditionError(
            absl::StrCat(id, " is ", v1::Video::State_Name(active->video.state()), ": cancel it first"));
      },
      std::move(done));
}

void SqliteJobStore::CancelAndDelete(const JobId& id, Done<bool> done) {
  PostWrite<bool>(
      Room::kFrees,
      [this, id](JobTables& tables, Events& events) -> absl::StatusOr<bool> {
        KINORA_ASSIGN_OR_RETURN(const std::optional<JobRecord> active, HideUnlessActive(tables, id));
        if (!active.has_value()) return true;
        if (active->delete_requested) return false;  // nothing to write
        KINORA_ASSIGN_OR_RETURN(
            const JobRecord record,
            Change(tables, events, id, [&](absl::Time now, JobRecord& changed, v1::VideoEvent* event) {
              return kinora::CancelAndDelete(rules_, now, changed, event);
            }));
        return IsTerminal(record.video.state());
      },
      std::move(done));
}

void SqliteJobStore::Purge(const JobId& id, Finished done) {
  PostWrite(
      Room::kFrees, [this, id](JobTables& tables, Events&) { return tables.Purge(id, clock_.Now()); }, std::move(done));
}

void SqliteJobStore::SweepExpired(absl::Time now, Done<std::vector<JobId>> done) {
  PostWrite<std::vector<JobId>>(
      Room::kFrees,
      [now](JobTables& tables, Events&) -> absl::StatusOr<std::vector<JobId>> {
        KINORA_RETURN_IF_ERROR(tables.HideExpired(now));
        return tables.Hidden();
      },
      std::move(done));
}

void SqliteJobStore::PutModel(const v1::ModelInfo& model, Finished done) {
  PostWrite(
      Room::kTakes, [model](JobTables& tables, Events&) { return tables.PutModel(model); }, std::move(done));
}

void SqliteJobStore::AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) {
  PostWrite(
      Room::kTakes, [place, run](JobTables& tables, Events&) { return tables.AddSpeed(place, run, kSpeedsKept); },
      std::move(done));
}

void SqliteJobStore::Get(const JobId& id, Done<v1::Video> done) {
  PostRead<v1::Video>(
      [id](JobTables& tables) -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(id));
        return std::move(record.video);
      },
      std::move(done));
}

void SqliteJobStore::List(const ListOptions& options, Done<JobPage> done) {
  PostRead<JobPage>([options](JobTables& tables) { return tables.List(options); }, std::move(done));
}

void SqliteJobStore::EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) {
  PostRead<JobHistory>(
      [id, sequence](JobTables& tables) -> absl::StatusOr<JobHistory> {
        JobHistory history;
        // Reads the record first, so that events committed in between are extra in `events`, never missing.
        KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(id));
        KINORA_ASSIGN_OR_RETURN(history.events, tables.EventsAfter(id, sequence));
        if (std::ssize(history.events) < record.last_sequence - std::max<int64_t>(sequence, 0)) {
          return absl::DataLossError(absl::StrCat("jobs.db: events of job \"", id, "\" are missing; delete the job"));
        }
        history.video = std::move(record.video);
        history.last_sequence = record.last_sequence;
        return history;
      },
      std::move(done));
}

void SqliteJobStore::Unfinished(Done<std::vector<UnfinishedJob>> done) {
  PostRead<std::vector<UnfinishedJob>>(
      [](JobTables& tables) -> absl::StatusOr<std::vector<UnfinishedJob>> {
        KINORA_ASSIGN_OR_RETURN(std::vector<JobRecord> records, tables.Unfinished());
        std::vector<UnfinishedJob> jobs;
        for (JobRecord& record : records) {
          jobs.push_back({.video = std::move(record.video),
                          .scheduling = record.scheduling,
                          .attempt = {},
                          .lease_expiry = record.lease_expiry,
                          .detach = record.detach});
          jobs.back().attempt = {jobs.back().video.id(), record.owner.empty() ? 0 : jobs.back().video.attempt(),
                                 record.owner};
        }
        return jobs;
      },
      std::move(done));
}

void SqliteJobStore::Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) {
  PostRead<std::vector<JobId>>(
      [ids = std::move(ids)](JobTables& tables) -> absl::StatusOr<std::vector<JobId>> {
        std::vector<JobId> unknown;
        for (const JobId& id : ids) {
          KINORA_ASSIGN_OR_RETURN(const bool known, tables.Knows(id));
          if (!known) unknown.push_back(id);
        }
        return unknown;
      },
      std::move(done));
}

void SqliteJobStore::Models(Done<std::vector<v1::ModelInfo>> done) {
  PostRead<std::vector<v1::ModelInfo>>([](JobTables& tables) { return tables.Models(); }, std::move(done));
}

void SqliteJobStore::Speeds(const std::string& place, Done<v1::SpeedHistory> done) {
  PostRead<v1::SpeedHistory>([place](JobTables& tables) { return tables.Speeds(place); }, std::move(done));
}

void SqliteJobStore::PutInput(const InputRecord& input, Finished done) {
  PostWrite(
      Room::kTakes, [input](JobTables& tables, Events&) { return tables.PutInput(input); }, std::move(done));
}

void SqliteJobStore::RemoveInput(const std::string& sha256, Finished done) {
  PostWrite(
      Room::kFrees, [sha256](JobTables& tables, Events&) { return tables.RemoveInput(sha256); }, std::move(done));
}

void SqliteJobStore::Inputs(Done<std::vector<InputRecord>> done) {
  PostRead<std::vector<InputRecord>>([](JobTables& tables) { return tables.Inputs(); }, std::move(done));
}

void SqliteJobStore::Flush() {
  const auto idle = [this] {
    mu_.AssertHeld();
    return pending_ == 0;
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&idle));
}

}  // namespace kinora

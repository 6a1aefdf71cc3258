#include "server/frontend/jobs/sqlite_job_store.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/frontend/jobs/frontend_tables.h"
#include "server/frontend/jobs/random_id.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<SqliteJobStore>> SqliteJobStore::Open(const std::string& path, const JobRules& rules,
                                                                     Clock& clock, EventListener listener,
                                                                     JobCommitterOptions options) {
  KINORA_ASSIGN_OR_RETURN(auto file, SqliteFile::Open(path, clock, std::move(listener), std::move(options)));
  return std::unique_ptr<SqliteJobStore>(new SqliteJobStore(std::move(file), rules, clock));
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
  if (!IsTerminal(record.video.state())) return record;
  if (!record.detach) {
    KINORA_RETURN_IF_ERROR(FrontendTables(tables.database()).Untie(id));
  }
  if (record.delete_requested) {
    KINORA_RETURN_IF_ERROR(tables.Hide(id));
  }
  return record;
}

namespace {

absl::StatusOr<std::optional<Created>> CreatedBefore(JobTables& tables, const v1::CreateVideoRequest& request,
                                                     const std::string& fingerprint) {
  if (request.request_id().empty()) return std::nullopt;
  KINORA_ASSIGN_OR_RETURN(const auto known, tables.FindRequest(request.request_id()));
  if (!known.has_value()) return std::nullopt;
  if (known->fingerprint != fingerprint) return RequestIdReused(request, known->id, known->fingerprint);
  KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(known->id));
  return Created{.video = std::move(record.video), .replayed = true};
}

}  // namespace

void SqliteJobStore::Create(const v1::CreateVideoRequest& request, const v1::Generation& effective,
                            double estimated_seconds, Done<Created> done) {
  file_->Write<Created>(
      Room::kTakes,
      [this, request, effective, estimated_seconds](JobTables& tables, Events& events) -> absl::StatusOr<Created> {
        const std::string fingerprint = Fingerprint(request);
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(tables, request, fingerprint));
        if (known.has_value()) return *std::move(known);
        v1::VideoEvent event;
        JobRecord record = NewJob(RandomId(), request, effective, estimated_seconds, clock_.Now(), &event);
        KINORA_RETURN_IF_ERROR(tables.Insert(record, fingerprint));
        if (!record.detach) {
          KINORA_RETURN_IF_ERROR(FrontendTables(tables.database()).Tie(record.video.id(), rules_.frontend));
        }
        KINORA_RETURN_IF_ERROR(tables.AddEvent(event));
        events.push_back(std::move(event));
        return Created{.video = std::move(record.video)};
      },
      std::move(done));
}

void SqliteJobStore::FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) {
  file_->Read<Created>(
      [request](JobTables& tables) -> absl::StatusOr<Created> {
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(tables, request, Fingerprint(request)));
        if (!known.has_value()) return absl::NotFoundError("request_id: no job was created with it");
        return *std::move(known);
      },
      std::move(done));
}

void SqliteJobStore::Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) {
  file_->Write<Claimed>(
      Room::kTakes,
      [this, id, owner = std::string(owner), lease](JobTables& tables, Events& events) -> absl::StatusOr<Claimed> {
        KINORA_ASSIGN_OR_RETURN(
            JobRecord record, Change(tables, events, id, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
              return kinora::Claim(owner, lease, now, record, event);
            }));
        return Claimed{
            .attempt = CurrentAttempt(record), .video = std::move(record.video), .resume = std::move(record.resume)};
      },
      std::move(done));
}

void SqliteJobStore::Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) {
  file_->Write<Lease>(
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
  file_->Write(
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

void SqliteJobStore::PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point,
                                    Done<std::optional<v1::ResumeMark>> done) {
  using Replaced = std::optional<v1::ResumeMark>;
  file_->Write<Replaced>(
      Room::kTakes,
      [this, attempt, point](JobTables& tables, Events& events) -> absl::StatusOr<Replaced> {
        Replaced replaced;
        KINORA_RETURN_IF_ERROR(Change(tables, events, attempt.id, [&](absl::Time, JobRecord& record, v1::VideoEvent*) {
                                 replaced = record.resume;
                                 return kinora::PutResumePoint(attempt, point, record);
                               }).status());
        return replaced;
      },
      std::move(done));
}

void SqliteJobStore::Finish(const Attempt& attempt, const Outcome& outcome, Finished done) {
  file_->Write(
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
  file_->Write<v1::Video>(
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
  file_->Write<v1::Video>(
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
  file_->Write<v1::Video>(
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
  file_->Write(
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
  file_->Write<bool>(
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
  file_->Write(
      Room::kFrees,
      [this, id](JobTables& tables, Events&) -> absl::Status {
        KINORA_RETURN_IF_ERROR(tables.Purge(id, clock_.Now()));
        return FrontendTables(tables.database()).UntieUnlessKnown(id);  // the job was damaged when it was hidden
      },
      std::move(done));
}

void SqliteJobStore::SweepExpired(absl::Time now, Done<std::vector<JobId>> done) {
  file_->Write<std::vector<JobId>>(
      Room::kFrees,
      [now](JobTables& tables, Events&) -> absl::StatusOr<std::vector<JobId>> {
        KINORA_RETURN_IF_ERROR(tables.HideExpired(now));
        return tables.Hidden();
      },
      std::move(done));
}

void SqliteJobStore::Get(const JobId& id, Done<v1::Video> done) {
  file_->Read<v1::Video>(
      [id](JobTables& tables) -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(id));
        return std::move(record.video);
      },
      std::move(done));
}

void SqliteJobStore::List(const ListOptions& options, Done<JobPage> done) {
  file_->Read<JobPage>([options](JobTables& tables) { return tables.List(options); }, std::move(done));
}

void SqliteJobStore::EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) {
  file_->Read<JobHistory>(
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

namespace {

UnfinishedJob ToUnfinished(JobRecord record) {
  UnfinishedJob job{.video = std::move(record.video),
                    .scheduling = std::move(record.scheduling),
                    .attempt = {},
                    .lease_expiry = record.lease_expiry,
                    .detach = record.detach,
                    .resume = std::move(record.resume),
                    .cancel_requested = record.cancel_requested};
  job.attempt = {job.video.id(), record.owner.empty() ? 0 : job.video.attempt(), record.owner};
  return job;
}

}  // namespace

void SqliteJobStore::Unfinished(Done<std::vector<UnfinishedJob>> done) {
  file_->Read<std::vector<UnfinishedJob>>(
      [](JobTables& tables) -> absl::StatusOr<std::vector<UnfinishedJob>> {
        KINORA_ASSIGN_OR_RETURN(std::vector<JobRecord> records, tables.Unfinished());
        std::vector<UnfinishedJob> jobs;
        jobs.reserve(records.size());
        for (JobRecord& record : records) jobs.push_back(ToUnfinished(std::move(record)));
        return jobs;
      },
      std::move(done));
}

void SqliteJobStore::LostRuns(const FrontendId& owner, Done<std::vector<UnfinishedJob>> done) {
  file_->Read<std::vector<UnfinishedJob>>(
      [this, owner](JobTables& tables) -> absl::StatusOr<std::vector<UnfinishedJob>> {
        KINORA_ASSIGN_OR_RETURN(std::vector<JobRecord> records, tables.LeasedToOthers(owner));
        std::vector<UnfinishedJob> jobs;
        for (JobRecord& record : records) {
          if (record.lease_expiry <= clock_.Now()) jobs.push_back(ToUnfinished(std::move(record)));
        }
        return jobs;
      },
      std::move(done));
}

void SqliteJobStore::Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) {
  file_->Read<std::vector<JobId>>(
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

}  // namespace kinora

#include "server/frontend/jobs/table_job_store.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/frontend/jobs/random_id.h"

namespace kinora {
namespace {

// The `done` of a transaction that puts its result into `result`.
template <typename T>
Finished Passing(std::shared_ptr<absl::StatusOr<T>> result, Done<T> done) {
  return [result = std::move(result), done = std::move(done)](absl::Status status) mutable {
    if (status.ok()) {
      done(*std::move(result));
    } else {
      done(std::move(status));
    }
  };
}

// The `done` of a change of which only a part of the record is wanted.
template <typename T, typename Part>
Done<JobRecord> OnlyThe(Part part, Done<T> done) {
  return [part, done = std::move(done)](absl::StatusOr<JobRecord> record) mutable {
    if (record.ok()) {
      done(part(*std::move(record)));
    } else {
      done(record.status());
    }
  };
}
Done<JobRecord> OnlyTheVideo(Done<v1::Video> done) {
  return OnlyThe<v1::Video>([](JobRecord record) { return std::move(record.video); }, std::move(done));
}
Done<JobRecord> OnlyWhether(Finished done) {
  return [done = std::move(done)](const absl::StatusOr<JobRecord>& record) mutable { done(record.status()); };
}

absl::StatusOr<std::optional<Created>> CreatedBefore(JobTables& tables, const v1::CreateVideoRequest& request,
                                                     const std::string& fingerprint) {
  if (request.request_id().empty()) return std::nullopt;
  KINORA_ASSIGN_OR_RETURN(const auto known, tables.FindRequest(request.request_id()));
  if (!known.has_value()) return std::nullopt;
  if (known->fingerprint != fingerprint) return RequestIdReused(request, known->id, known->fingerprint);
  KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(known->id));
  return Created{.video = std::move(record.video), .replayed = true};
}

// Hides the job and returns nullopt if it has ended, or if its record is damaged and can only be deleted. Otherwise
// returns the record.
absl::StatusOr<std::optional<JobRecord>> HideUnlessActive(JobTables& tables, const JobId& id) {
  absl::StatusOr<JobRecord> record = tables.Load(id);
  if (!record.ok() && !absl::IsDataLoss(record.status())) return record.status();
  if (record.ok() && !IsTerminal(record->video.state())) return *std::move(record);
  KINORA_RETURN_IF_ERROR(tables.Hide(id));
  return std::nullopt;
}

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

std::vector<UnfinishedJob> AllToUnfinished(std::vector<JobRecord> records) {
  std::vector<UnfinishedJob> jobs;
  jobs.reserve(records.size());
  for (JobRecord& record : records) jobs.push_back(ToUnfinished(std::move(record)));
  return jobs;
}

}  // namespace

template <typename T, typename Apply>
void TableJobStore::Write(const JobId& id, Room room, Apply apply, Done<T> done) {
  auto result = std::make_shared<absl::StatusOr<T>>(absl::UnknownError("not run"));
  transactions_.WriteJob(
      id, room,
      [apply = std::move(apply), result](JobTables& tables, Events& events) mutable {
        *result = apply(tables, events);
        return result->status();
      },
      Passing(result, std::move(done)));
}

template <typename T, typename Reading>
void TableJobStore::Read(Reading read, Done<T> done) {
  auto result = std::make_shared<absl::StatusOr<T>>(absl::UnknownError("not run"));
  transactions_.ReadJobs(
      [read = std::move(read), result](JobTables& tables) mutable {
        *result = read(tables);
        return result->status();
      },
      Passing(result, std::move(done)));
}

template <typename Transition>
absl::StatusOr<JobRecord> TableJobStore::Change(JobTables& tables, Events& events, const JobId& id,
                                                Transition transition) {
  KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(id));
  v1::VideoEvent event;
  KINORA_RETURN_IF_ERROR(transition(tables.Now(), record, &event));
  KINORA_RETURN_IF_ERROR(tables.Save(record, event));
  if (event.event_case() != v1::VideoEvent::EVENT_NOT_SET) events.push_back(std::move(event));
  return record;
}

template <typename Transition>
void TableJobStore::ChangeJob(const JobId& id, Room room, Transition transition, Done<JobRecord> done) {
  Write<JobRecord>(
      id, room,
      [id, transition = std::move(transition)](JobTables& tables, Events& events) {
        return Change(tables, events, id, transition);
      },
      std::move(done));
}

void TableJobStore::Create(const v1::CreateVideoRequest& request, const v1::Generation& effective,
                           double estimated_seconds, Done<Created> done) {
  const JobId id = RandomId();  // drawn once, however often the transaction runs
  Write<Created>(
      id, Room::kTakes,
      [this, id, request, effective, estimated_seconds](JobTables& tables, Events& events) -> absl::StatusOr<Created> {
        const std::string fingerprint = Fingerprint(request);
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(tables, request, fingerprint));
        if (known.has_value()) return *std::move(known);
        v1::VideoEvent event;
        JobRecord record = NewJob(id, request, effective, estimated_seconds, tables.Now(), &event);
        KINORA_RETURN_IF_ERROR(tables.Insert(record, fingerprint, event, rules_.frontend));
        events.push_back(std::move(event));
        return Created{.video = std::move(record.video)};
      },
      std::move(done));
}

void TableJobStore::FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) {
  Read<Created>(
      [request](JobTables& tables) -> absl::StatusOr<Created> {
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(tables, request, Fingerprint(request)));
        if (!known.has_value()) return absl::NotFoundError("request_id: no job was created with it");
        return *std::move(known);
      },
      std::move(done));
}

void TableJobStore::Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) {
  ChangeJob(
      id, Room::kTakes,
      [owner = std::string(owner), lease](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
        return kinora::Claim(owner, lease, now, record, event);
      },
      OnlyThe<Claimed>(
          [](JobRecord record) {
            const Attempt attempt = CurrentAttempt(record);
            return Claimed{.attempt = attempt, .video = std::move(record.video), .resume = std::move(record.resume)};
          },
          std::move(done)));
}

void TableJobStore::Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) {
  ChangeJob(
      attempt.id, Room::kTakes,
      [attempt, lease](absl::Time now, JobRecord& record, v1::VideoEvent*) {
        return kinora::Renew(attempt, lease, now, record);
      },
      OnlyThe<Lease>(
          [](const JobRecord& record) {
            return Lease{.expiry = record.lease_expiry, .cancel_requested = record.cancel_requested};
          },
          std::move(done)));
}

void TableJobStore::Append(const Attempt& attempt, const v1::VideoEvent& added, Finished done) {
  ChangeJob(
      attempt.id, Room::kTakes,
      [attempt, added](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
        return kinora::Append(attempt, added, now, record, event);
      },
      OnlyWhether(std::move(done)));
}

void TableJobStore::PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point,
                                   Done<std::optional<v1::ResumeMark>> done) {
  using Replaced = std::optional<v1::ResumeMark>;
  Write<Replaced>(
      attempt.id, Room::kTakes,
      [attempt, point](JobTables& tables, Events& events) -> absl::StatusOr<Replaced> {
        Replaced replaced;
        KINORA_RETURN_IF_ERROR(Change(tables, events, attempt.id, [&](absl::Time, JobRecord& record, v1::VideoEvent*) {
                                 replaced = record.resume;
                                 return kinora::PutResumePoint(attempt, point, record);
                               }).status());
        return replaced;
      },
      std::move(done));
}

void TableJobStore::Finish(const Attempt& attempt, const Outcome& outcome, Finished done) {
  ChangeJob(
      attempt.id, Room::kFrees,
      [this, attempt, outcome](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
        return kinora::Finish(attempt, outcome, rules_, now, record, event);
      },
      OnlyWhether(std::move(done)));
}

void TableJobStore::Requeue(const Attempt& attempt, const Release& release, Done<v1::Video> done) {
  Write<v1::Video>(
      attempt.id, Room::kTakes,
      [this, attempt, release](JobTables& tables, Events& events) -> absl::StatusOr<v1::Video> {
        if (release.if_lost && !tables.LeasesCount()) {
          return absl::AbortedError(absl::StrCat("attempt ", attempt.number, " of ", attempt.id,
                                                 ": its lease could not be renewed while the database was away"));
        }
        KINORA_ASSIGN_OR_RETURN(
            JobRecord record,
            Change(tables, events, attempt.id, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
              return kinora::Requeue(attempt, release, rules_, now, record, event);
            }));
        return std::move(record.video);
      },
      std::move(done));
}

void TableJobStore::Cancel(const JobId& id, Done<v1::Video> done) {
  Write<v1::Video>(
      id, Room::kFrees,
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

void TableJobStore::FailQueued(const JobId& id, const google::rpc::Status& error, Done<v1::Video> done) {
  ChangeJob(
      id, Room::kFrees,
      [this, error](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
        return kinora::FailQueued(error, rules_, now, record, event);
      },
      OnlyTheVideo(std::move(done)));
}

void TableJobStore::Delete(const JobId& id, Finished done) {
  transactions_.WriteJob(
      id, Room::kFrees,
      [id](JobTables& tables, Events&) -> absl::Status {
        KINORA_ASSIGN_OR_RETURN(const std::optional<JobRecord> active, HideUnlessActive(tables, id));
        if (!active.has_value()) return absl::OkStatus();
        return absl::FailedPreconditionError(
            absl::StrCat(id, " is ", v1::Video::State_Name(active->video.state()), ": cancel it first"));
      },
      std::move(done));
}

void TableJobStore::CancelAndDelete(const JobId& id, Done<bool> done) {
  Write<bool>(
      id, Room::kFrees,
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

void TableJobStore::Purge(const JobId& id, Finished done) {
  transactions_.WriteJob(
      id, Room::kFrees, [id](JobTables& tables, Events&) { return tables.Purge(id); }, std::move(done));
}

void TableJobStore::SweepExpired(absl::Time now, Done<std::vector<JobId>> done) {
  Write<std::vector<JobId>>(
      "", Room::kFrees,
      [now](JobTables& tables, Events&) -> absl::StatusOr<std::vector<JobId>> {
        KINORA_RETURN_IF_ERROR(tables.HideExpired(now));
        return tables.Hidden();
      },
      std::move(done));
}

void TableJobStore::Get(const JobId& id, Done<v1::Video> done) {
  Read<v1::Video>(
      [id](JobTables& tables) -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(id));
        return std::move(record.video);
      },
      std::move(done));
}

void TableJobStore::List(const ListOptions& options, Done<JobPage> done) {
  Read<JobPage>([options](JobTables& tables) { return tables.List(options); }, std::move(done));
}

void TableJobStore::EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) {
  Read<JobHistory>(
      [id, sequence](JobTables& tables) -> absl::StatusOr<JobHistory> {
        JobHistory history;
        // Reads the record first, so that events committed in between are extra in `events`, never missing.
        KINORA_ASSIGN_OR_RETURN(JobRecord record, tables.Load(id));
        KINORA_ASSIGN_OR_RETURN(history.events, tables.EventsAfter(id, sequence));
        if (std::ssize(history.events) < record.last_sequence - std::max<int64_t>(sequence, 0)) {
          return absl::DataLossError(absl::StrCat("events of job \"", id, "\" are missing; delete the job"));
        }
        history.video = std::move(record.video);
        history.last_sequence = record.last_sequence;
        return history;
      },
      std::move(done));
}

void TableJobStore::Unfinished(Done<std::vector<UnfinishedJob>> done) {
  Read<std::vector<UnfinishedJob>>(
      [](JobTables& tables) -> absl::StatusOr<std::vector<UnfinishedJob>> {
        KINORA_ASSIGN_OR_RETURN(std::vector<JobRecord> records, tables.Unfinished());
        return AllToUnfinished(std::move(records));
      },
      std::move(done));
}

void TableJobStore::LostRuns(const FrontendId& owner, Done<std::vector<UnfinishedJob>> done) {
  Read<std::vector<UnfinishedJob>>(
      [owner](JobTables& tables) -> absl::StatusOr<std::vector<UnfinishedJob>> {
        KINORA_ASSIGN_OR_RETURN(std::vector<JobRecord> records, tables.LostRuns(owner));
        return AllToUnfinished(std::move(records));
      },
      std::move(done));
}

void TableJobStore::Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) {
  Read<std::vector<JobId>>(
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

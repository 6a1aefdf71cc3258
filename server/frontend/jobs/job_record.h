// A job as stored, and the transitions between its states, without disk or threads. A store loads the record, applies
// one transition, and saves record and event in one transaction, so every store obeys the same rules.
//
//   QUEUED → RUNNING → FINALIZING → COMPLETED | FAILED | CANCELLED
//      ↖ Requeue ↙          QUEUED → CANCELLED | FAILED (deadline)
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_RECORD_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

struct JobRules {
  int max_lost_groups = 2;                           // number of lost groups that fails a job
  absl::Duration default_ttl = absl::Hours(7 * 24);  // after the job's end, if Output.ttl is absent
  FrontendId frontend{};                             // that uses this store; holds the clients of jobs it creates
};

struct JobRecord {
  v1::Video video;
  v1::Scheduling scheduling;
  bool detach = false;
  FrontendId owner;  // of the present attempt; empty if there is none
  absl::Time lease_expiry = absl::UnixEpoch();
  absl::Time queued_since = absl::UnixEpoch();
  bool cancel_requested = false;
  bool delete_requested = false;  // and so is the cancellation; the job is deleted when it ends
  int lost_groups = 0;
  int64_t last_sequence = 0;
  std::optional<v1::ResumeMark> resume{};  // see JobStore::PutResumePoint
};

bool IsTerminal(v1::Video::State state);
// Whether the job was deleted as it ended: such a job expires at its end.
bool DeletedAtEnd(const v1::Video& video);
Attempt CurrentAttempt(const JobRecord& record);

// SHA-256 of the request without request_id and detach. Requests with equal fingerprints have the same content.
std::string Fingerprint(const v1::CreateVideoRequest& request);
// AlreadyExists: `request` has the request_id, but not the content, of job `id` with this fingerprint.
absl::Status RequestIdReused(const v1::CreateVideoRequest& request, const JobId& id, const std::string& fingerprint);

JobRecord NewJob(const JobId& id, const v1::CreateVideoRequest& request, const v1::Generation& effective,
                 double estimated_seconds, absl::Time now, v1::VideoEvent* event);

// Each transition changes `record` and fills in the event to be stored, or leaves both as they are and returns an error
// of JobStore. If `event` is left without a case, no event is stored.
absl::Status Claim(std::string_view owner, absl::Duration lease, absl::Time now, JobRecord& record,
                   v1::VideoEvent* event);
absl::Status Renew(const Attempt& attempt, absl::Duration lease, absl::Time now, JobRecord& record);
absl::Status Append(const Attempt& attempt, const v1::VideoEvent& added, absl::Time now, JobRecord& record,
                    v1::VideoEvent* event);
absl::Status PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point, JobRecord& record);
absl::Status Finish(const Attempt& attempt, const Outcome& outcome, const JobRules& rules, absl::Time now,
                    JobRecord& record, v1::VideoEvent* event);
absl::Status Requeue(const Attempt& attempt, const Release& release, const JobRules& rules, absl::Time now,
                     JobRecord& record, v1::VideoEvent* event);
absl::Status Cancel(const JobRules& rules, absl::Time now, JobRecord& record,
                    v1::VideoEvent* event);  // may store no event
// Cancels a job that has not ended, and requests its deletion at its end.
absl::Status CancelAndDelete(const JobRules& rules, absl::Time now, JobRecord& record, v1::VideoEvent* event);
absl::Status FailQueued(const google::rpc::Status& error, const JobRules& rules, absl::Time now, JobRecord& record,
                        v1::VideoEvent* event);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_RECORD_H_

// A job as a store keeps it, and the transitions between its states. No disk, no thread: a store loads the record,
// applies one transition and saves record and event in one transaction, so every store obeys the same rules.
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
  int max_lost_groups = 2;                           // this many lost groups end a job
  absl::Duration default_ttl = absl::Hours(7 * 24);  // after its end, where Output.ttl is absent
};

struct JobRecord {
  v1::Video video;
  v1::Scheduling scheduling;
  bool detach = false;
  std::string owner;  // of the present attempt; empty: none
  absl::Time lease_expiry = absl::UnixEpoch();
  absl::Time queued_since = absl::UnixEpoch();
  bool cancel_requested = false;
  int lost_groups = 0;
  int64_t last_sequence = 0;
};

bool IsTerminal(v1::Video::State state);
Attempt CurrentAttempt(const JobRecord& record);

// SHA-256 over the request less request_id and detach: what "the same content" means for a request_id.
std::string Fingerprint(const v1::CreateVideoRequest& request);

JobRecord NewJob(const JobId& id, const v1::CreateVideoRequest& request, const v1::Generation& effective,
                 double estimated_seconds, absl::Time now, v1::VideoEvent* event);

// Each changes `record` and fills `event` with what is to be stored, or leaves both as they are and returns why (errors
// of JobStore). Where `event` may stay without a case, nothing is to be stored.
absl::Status Claim(std::string_view owner, absl::Duration lease, absl::Time now, JobRecord& record,
                   v1::VideoEvent* event);
absl::Status Renew(const Attempt& attempt, absl::Duration lease, absl::Time now, JobRecord& record);
absl::Status Append(const Attempt& attempt, const v1::VideoEvent& added, absl::Time now, JobRecord& record,
                    v1::VideoEvent* event);
absl::Status Finish(const Attempt& attempt, const Outcome& outcome, const JobRules& rules, absl::Time now,
                    JobRecord& record, v1::VideoEvent* event);
absl::Status Requeue(const Attempt& attempt, const Release& release, const JobRules& rules, absl::Time now,
                     JobRecord& record, v1::VideoEvent* event);
absl::Status Cancel(const JobRules& rules, absl::Time now, JobRecord& record,
                    v1::VideoEvent* event);  // may store nothing
absl::Status FailQueued(const google::rpc::Status& error, const JobRules& rules, absl::Time now, JobRecord& record,
                        v1::VideoEvent* event);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_RECORD_H_

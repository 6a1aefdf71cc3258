// Stores jobs and their events. store_call.h says how it is called. Each call is one transaction of state, event and
// idempotency key together.
//
// The store passes every stored event to its EventListener after the commit and before the call's `done`; those of one
// job in commit order. Not after an error with COMMIT_UNKNOWN.
//
// Errors of any call, besides those of store_call.h: NotFound (no such job; ErrorInfo EXPIRED if it has expired),
// Aborted (the attempt is no longer the current one: stop working on it).
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/frontend/jobs/store_call.h"

namespace kinora {

using JobId = std::string;
using FrontendId = std::string;  // of one frontend process, drawn at its start: RandomId
using EventListener = std::function<void(const v1::VideoEvent&)>;  // must not block; calls are serialised

struct Attempt {  // a claim on a job; fences all writes about it
  JobId id;
  int32_t number = 0;  // increases, also across restarts; part of the artifact key "<id>/<number>"
  FrontendId owner;
};
struct Created {
  v1::Video video;
  bool replayed = false;  // the request_id was known, with the same content
};
struct Claimed {
  Attempt attempt;
  v1::Video video;                         // RUNNING; `effective` and `output` describe the work
  std::optional<v1::ResumeMark> resume{};  // where an earlier attempt, which it names, got to
};
struct Lease {
  absl::Time expiry;
  bool cancel_requested = false;
};
struct Outcome {
  v1::Video::State state = v1::Video::COMPLETED;  // COMPLETED, FAILED or CANCELLED
  google::rpc::Status error;                      // if FAILED
  std::vector<v1::Artifact> artifacts;            // durable before Finish is called
  v1::Usage usage;                                // queue_seconds is filled in by the store
  v1::Progress progress{};                        // progress of a run that was not completed; empty: as stored
};

struct Release {  // end of an attempt without an outcome
  std::string why;
  bool lost_group = false;          // the group was lost, which counts against max_lost_groups
  v1::Progress progress{};          // as in Outcome
  bool drop_earlier_point = false;  // forgets a resume point that another attempt stored
  bool preempted = false;           // adds to Video.preemptions
  bool if_lost = false;             // only if the attempt's lease is over; otherwise Aborted
};
struct ListOptions {
  int page_size = 0;
  std::string page_token;                // from a JobPage in the same order; otherwise InvalidArgument
  std::vector<v1::Video::State> states;  // empty: all
  std::string id_prefix{};
  std::map<std::string, std::string> labels{};  // a video must have all of them
  std::vector<std::string> words{};  // from SearchWords (prompt_words.h); its prompt must contain all of them
  JobId after_id{};                  // only videos that come after it; not with page_token
  bool ascending = false;            // oldest first; otherwise newest first
};
struct JobPage {  // may be shorter than page_size if videos are large or few have the labels and words
  std::vector<v1::Video> videos;
  std::string next_page_token;  // empty on the last page
};
struct UnfinishedJob {
  v1::Video video;
  v1::Scheduling scheduling;
  Attempt attempt;          // if RUNNING or FINALIZING; otherwise number 0
  absl::Time lease_expiry;  // likewise
  bool detach = false;      // false: created by GenerateVideo, cancelled unless watched
  std::optional<v1::ResumeMark> resume{};
  bool cancel_requested = false;  // as in Lease
};
struct JobHistory {
  v1::Video video;
  std::vector<v1::VideoEvent> events;  // stored events after the requested sequence, ascending
  int64_t last_sequence = 0;
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // Creates a QUEUED job with sequence 1, durable when `done` runs. `effective`: with seed and every default.
  // `estimated_seconds`: Video.estimated_seconds. A known request_id returns the existing job if the content (the
  // request without request_id and detach) is the same, otherwise AlreadyExists.
  virtual void Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double estimated_seconds,
                      Done<Created> done) = 0;
  // Returns what Create would for a known request_id (the existing job or AlreadyExists), otherwise NotFound.
  virtual void FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) = 0;

  // QUEUED → RUNNING, attempt + 1. FailedPrecondition if the job is not QUEUED (cancelled meanwhile, or claimed).
  virtual void Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) = 0;
  virtual void Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) = 0;
  // `event` has `stage`, or `state` with state RUNNING or FINALIZING, whose `resolved` is stored if set. The store
  // fills in video_id, sequence, time and the rest of the Video.
  virtual void Append(const Attempt& attempt, const v1::VideoEvent& event, Finished done) = 0;
  // Stores where the next attempt can continue; a point without an ID: at the beginning. Stores no event. It is kept
  // until it is replaced, dropped by a Release, or the job ends. `done` gets the replaced one.
  virtual void PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point,
                              Done<std::optional<v1::ResumeMark>> done) = 0;
  virtual void Finish(const Attempt& attempt, const Outcome& outcome, Finished done) = 0;
  // Ends the attempt without an outcome: RUNNING → QUEUED. The max_lost_groups-th lost group fails the job with
  // ABORTED, WORKER_GROUP_LOST and `why`. A job whose cancellation was requested becomes CANCELLED. The Video passed to
  // `done` has the new state; a job that has ended keeps its progress.
  virtual void Requeue(const Attempt& attempt, const Release& release, Done<v1::Video> done) = 0;

  // A QUEUED job becomes CANCELLED at once. For a RUNNING job the request is stored (Lease::cancel_requested) and the
  // Video is unchanged until the attempt's owner ends it. A terminal job is unchanged.
  virtual void Cancel(const JobId& id, Done<v1::Video> done) = 0;
  // QUEUED → FAILED with `error` (a deadline passed). FailedPrecondition if the job is not QUEUED.
  virtual void FailQueued(const JobId& id, const google::rpc::Status& error, Done<v1::Video> done) = 0;
  // Hides the record at once; FailedPrecondition unless the job is terminal. Call Purge once its artifacts are deleted.
  virtual void Delete(const JobId& id, Finished done) = 0;
  // Like Cancel, and hides the record as soon as the job is terminal, also after a restart of the store; its terminal
  // event is DeletedAtEnd (job_record.h). `done` gets whether the record is hidden already.
  virtual void CancelAndDelete(const JobId& id, Done<bool> done) = 0;
  virtual void Purge(const JobId& id, Finished done) = 0;

  virtual void Get(const JobId& id, Done<v1::Video> done) = 0;
  virtual void List(const ListOptions& options, Done<JobPage> done) = 0;  // NotFound, naming after_id: no such job
  virtual void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) = 0;
  virtual void Unfinished(Done<std::vector<UnfinishedJob>> done) = 0;  // oldest first
  // Returns the running jobs among Unfinished that `owner` does not own and whose leases are over.
  virtual void LostRuns(const FrontendId& owner, Done<std::vector<UnfinishedJob>> done) = 0;
  // Returns those `ids` that belong to no job, hidden or not.
  virtual void Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) = 0;
  // Hides jobs whose expire_time has passed and returns all hidden jobs that are not purged.
  virtual void SweepExpired(absl::Time now, Done<std::vector<JobId>> done) = 0;

  // Blocks until `done` of all earlier calls has returned, including calls to other stores in the same file; for the
  // end of the process and tests.
  virtual void Flush() = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_STORE_H_

// Where jobs live. Thread-safe; every call is one transaction: state, event and idempotency key together. Calls return
// at once and never block on the disk; `done` runs on the store's own threads, after the commit, never on a caller's.
// It must not block: it may call the store again, finish an RPC or wake another thread.
//
// Every stored event is given to the store's EventListener after the commit and before the call's `done`, in commit
// order.
//
// Errors that any call may have: NotFound (no such job; ErrorInfo EXPIRED if it was swept), Aborted (the attempt is no
// longer the current one: stop working on it), ResourceExhausted (disk full), Unavailable (the store is closed or its
// file is locked), DataLoss (its file is damaged).
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

using JobId = std::string;
template <typename T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;
using Finished = absl::AnyInvocable<void(absl::Status)>;
using EventListener = std::function<void(const v1::VideoEvent&)>;  // must not block; calls are serialised

struct Attempt {  // a claim on a job: the fence of all that is written about it
  JobId id;
  int32_t number = 0;  // only grows, over restarts too; part of the artifact key "<id>/<number>"
  std::string owner;
};
struct Created {
  v1::Video video;
  bool replayed = false;  // this request_id was known, with the same content
};
struct Claimed {
  Attempt attempt;
  v1::Video video;  // RUNNING; `effective` and `output` say what to do
};
struct Lease {
  absl::Time expiry;
  bool cancel_requested = false;
};
struct Outcome {
  v1::Video::State state = v1::Video::COMPLETED;  // COMPLETED, FAILED or CANCELLED
  google::rpc::Status error;                      // of FAILED
  std::vector<v1::Artifact> artifacts;            // durable before Finish is called
  v1::Usage usage;                                // queue_seconds is filled in by the store
  v1::Progress progress{};                        // how far a run came that was not completed; empty: as stored
};

struct Release {  // of an attempt that ended without an outcome
  std::string why;
  bool lost_group = false;  // the group died, which counts
  v1::Progress progress{};  // as Outcome's
};
struct ListOptions {
  int page_size = 0;
  std::string page_token;                // from JobPage; InvalidArgument if it is not one
  std::vector<v1::Video::State> states;  // empty: all
  std::string id_prefix{};
  std::map<std::string, std::string> labels{};  // all of them
};
struct JobPage {  // newest first; shorter than asked for where the videos are large, or those with the labels rare
  std::vector<v1::Video> videos;
  std::string next_page_token;  // empty: the last page
};
struct UnfinishedJob {
  v1::Video video;
  v1::Scheduling scheduling;
  Attempt attempt;          // of a RUNNING or FINALIZING job; number 0 otherwise
  absl::Time lease_expiry;  // of the same
  bool detach = false;      // false: created by GenerateVideo, to be cancelled unless somebody watches it
};
struct InputRecord {         // content that a client uploads, or has uploaded
  std::string sha256;        // of all of it; the key
  int64_t bytes = 0;         // all of it
  std::string media_type{};  // as found in it; empty: it is not whole yet
  absl::Time expiry = absl::InfinitePast();
};
struct JobHistory {
  v1::Video video;
  std::vector<v1::VideoEvent> events;  // stored, sequence > the one asked for, ascending
  int64_t last_sequence = 0;
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // QUEUED, sequence 1, durable once `done` is told. `effective`: seed drawn, every default filled in.
  // `estimated_seconds`: Video's. A known request_id gives the existing job if the content (the request less request_id
  // and detach) is the same, else AlreadyExists.
  virtual void Create(const v1::CreateVideoRequest& request, const v1::Generation& effective, double estimated_seconds,
                      Done<Created> done) = 0;
  // The job that Create would give back for the request's request_id, or its AlreadyExists; else NotFound.
  virtual void FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) = 0;

  // QUEUED → RUNNING, attempt + 1. FailedPrecondition if the job is not QUEUED (cancelled meanwhile, or claimed).
  virtual void Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) = 0;
  virtual void Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) = 0;
  // `event` holds `stage`, or `state` whose state is RUNNING or FINALIZING and whose `resolved`, where set, is kept.
  // The store fills in video_id, sequence, time and the rest of the Video.
  virtual void Append(const Attempt& attempt, const v1::VideoEvent& event, Finished done) = 0;
  virtual void Finish(const Attempt& attempt, const Outcome& outcome, Finished done) = 0;
  // The attempt ended without an outcome: RUNNING → QUEUED. The max_lost_groups-th loss of a group ends the job FAILED
  // with ABORTED, WORKER_GROUP_LOST and `why`. A job whose cancel was requested ends CANCELLED. The Video given to
  // `done` says which; one that has ended keeps how far it came.
  virtual void Requeue(const Attempt& attempt, const Release& release, Done<v1::Video> done) = 0;

  // QUEUED: CANCELLED at once. RUNNING: the request is noted (Lease::cancel_requested) and the Video is as it was; the
  // attempt's owner ends it. Terminal: as it is.
  virtual void Cancel(const JobId& id, Done<v1::Video> done) = 0;
  // QUEUED → FAILED with `error` (a deadline passed). FailedPrecondition if the job is not QUEUED.
  virtual void FailQueued(const JobId& id, const google::rpc::Status& error, Done<v1::Video> done) = 0;
  // The record is hidden at once; FailedPrecondition unless terminal. Call Purge once its artifacts are gone.
  virtual void Delete(const JobId& id, Finished done) = 0;
  virtual void Purge(const JobId& id, Finished done) = 0;

  virtual void Get(const JobId& id, Done<v1::Video> done) = 0;
  virtual void List(const ListOptions& options, Done<JobPage> done) = 0;
  virtual void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) = 0;
  virtual void Unfinished(Done<std::vector<UnfinishedJob>> done) = 0;  // oldest first
  // Hides jobs whose expire_time has passed and lists all that are hidden and not purged.
  virtual void SweepExpired(absl::Time now, Done<std::vector<JobId>> done) = 0;

  // Models that groups described, kept so that requests are validated while no group is up.
  virtual void PutModel(const v1::ModelInfo& model, Finished done) = 0;
  virtual void Models(Done<std::vector<v1::ModelInfo>> done) = 0;

  // What runs took, the last kSpeedsKept on each `place` (model, precision, mesh and device) that are not older than
  // thousands of other runs; oldest first.
  static constexpr int kSpeedsKept = 50;
  virtual void AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) = 0;
  virtual void Speeds(const std::string& place, Done<v1::SpeedHistory> done) = 0;

  // Replaces the one of the same key.
  virtual void PutInput(const InputRecord& input, Finished done) = 0;
  virtual void RemoveInput(const std::string& sha256, Finished done) = 0;  // none: OK
  virtual void Inputs(Done<std::vector<InputRecord>> done) = 0;

  // Waits until all calls made before it have run their `done`; for the end of the process and for tests.
  virtual void Flush() = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_STORE_H_

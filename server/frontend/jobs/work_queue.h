// The jobs that wait for a group, and which of them is next: higher priority first, then older first (a requeued job
// keeps its age). A frontend asks for a job when it has an idle group; it does not have to know which jobs wait.
// Thread-safe.
#ifndef KINORA_SERVER_FRONTEND_JOBS_WORK_QUEUE_H_
#define KINORA_SERVER_FRONTEND_JOBS_WORK_QUEUE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

struct QueuedJob {
  std::string id;
  std::string model;
  int priority = 0;
  absl::Time create_time;
  absl::Time queued_time = absl::InfinitePast();  // of a requeued job, to measure its wait
  absl::Time deadline = absl::InfiniteFuture();   // for the job's end; the dispatcher enforces it for running jobs
  double estimated_seconds = 0;                   // Video.estimated_seconds; 0 if unknown
  v1::Generation::Recipe recipe = v1::Generation::RECIPE_UNSPECIFIED;
  std::vector<v1::LoraRef> loras{};
};

QueuedJob ToQueuedJob(const v1::Video& video, const v1::Scheduling& scheduling);

struct WorkRequest {  // by a frontend with idle groups
  std::string owner;  // as in JobStore::Claim, like `lease`
  absl::Duration lease;
  // Returns the idle group that should run the job, or "" if none can. Called for waiting jobs in their order until it
  // returns a group; on any thread, also after ClaimNext has returned.
  std::function<std::string(const QueuedJob&)> group_for;
};
struct WorkClaim {
  QueuedJob job;
  std::string group;  // as group_for returned it
  Claimed claimed;
};

class WorkQueue {
 public:
  virtual ~WorkQueue() = default;

  // Claims the first waiting job for which the request has a group. `done` gets nothing if there is none; it runs once,
  // on any thread, perhaps before this call returns. After an error of the store (Unavailable, ResourceExhausted) the
  // job still waits.
  virtual void ClaimNext(WorkRequest request, Done<std::optional<WorkClaim>> done) = 0;
  // The listener is called when ClaimNext may find a job that it did not find before. It runs on any thread and must
  // not block. Set it before the first Push.
  virtual void SetPushListener(std::function<void()> listener) = 0;

  // Reserves a place for a job that is being created. ResourceExhausted (with RetryInfo) if waiting jobs and
  // reservations reach the capacity, Unavailable when closed. Each success must be followed by one Push or one
  // Unreserve.
  virtual absl::Status Reserve() = 0;
  virtual void Unreserve() = 0;
  virtual void Push(const QueuedJob& job) = 0;     // uses a reserved place
  virtual void Requeue(const QueuedJob& job) = 0;  // needs no reservation and works on a closed queue

  virtual bool Remove(const std::string& id) = 0;                  // false if it is not queued
  virtual std::vector<QueuedJob> TakeExpired(absl::Time now) = 0;  // removes and returns jobs whose deadline has passed
  virtual absl::Time NextDeadline() const = 0;                     // infinite future if none
  // Visits the waiting jobs in their order, until `visit` returns false. It must not call the queue.
  virtual void Visit(absl::FunctionRef<bool(const QueuedJob&)> visit) const = 0;
  virtual int Position(const std::string& id) const = 0;  // 1: next; 0: not queued
  virtual int size() const = 0;
  virtual void Close() = 0;  // Reserve fails from now on (drain); ClaimNext still works
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_WORK_QUEUE_H_

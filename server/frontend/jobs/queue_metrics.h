// kinora_queue_depth and kinora_queue_seconds: how many jobs wait, and how long a group would take for them. What
// scales worker groups reads the second: it is never 0 while a job waits.
#ifndef KINORA_SERVER_FRONTEND_JOBS_QUEUE_METRICS_H_
#define KINORA_SERVER_FRONTEND_JOBS_QUEUE_METRICS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/metrics.h"
#include "server/frontend/jobs/job_queue.h"

namespace kinora {

class QueueMetrics {  // thread-safe
 public:
  // Of a job that nobody could estimate, where no job of its model has been completed yet.
  static constexpr double kUnknownSeconds = 60;
  static constexpr size_t kRunsKept = 20;

  explicit QueueMetrics(FrontendMetrics& metrics) : metrics_(metrics) {}

  void Change(const QueuedJob& job, int change);  // JobQueue's listener
  // Of jobs that ended, oldest first: how long those that were COMPLETED ran. Jobs without an estimate count as the
  // median of their model's last 20.
  void Observe(const v1::Video& ended);

 private:
  struct OfModel {
    int64_t estimated_milliseconds = 0;  // of the waiting jobs that have an estimate
    int64_t not_estimated = 0;           // waiting jobs that have none
    std::deque<double> runs;             // seconds, oldest first
  };
  void Set(const std::string& model, const OfModel& of) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  FrontendMetrics& metrics_;  // not owned
  absl::Mutex mu_;
  std::map<std::string, OfModel> models_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_QUEUE_METRICS_H_

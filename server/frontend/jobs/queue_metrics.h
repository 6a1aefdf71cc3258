// kinora_queue_depth and kinora_queue_seconds: how many jobs wait, and how long one group would take to run them.
// Autoscalers of worker groups read the latter, which is never 0 while a job waits.
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
#include "server/frontend/jobs/work_queue.h"

namespace kinora {

class QueueMetrics {  // thread-safe
 public:
  // For a job without an estimate, before any job of its model has completed.
  static constexpr double kUnknownSeconds = 60;
  static constexpr size_t kRunsKept = 20;

  explicit QueueMetrics(FrontendMetrics& metrics) : metrics_(metrics) {}

  void Change(const QueuedJob& job, int change);  // as JobQueue's ChangeListener
  // Records the run time of a COMPLETED job; ignores other states. Call it in order of end time. A job without an
  // estimate counts as the median of its model's last kRunsKept run times.
  void Observe(const v1::Video& ended);

 private:
  struct OfModel {
    int64_t estimated_milliseconds = 0;  // of waiting jobs with an estimate
    int64_t not_estimated = 0;           // number of waiting jobs without one
    std::deque<double> runs;             // seconds, oldest first
  };
  void Set(const std::string& model, const OfModel& of) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  FrontendMetrics& metrics_;  // not owned
  absl::Mutex mu_;
  std::map<std::string, OfModel> models_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_QUEUE_METRICS_H_

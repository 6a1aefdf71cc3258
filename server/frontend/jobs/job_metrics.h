// Counts ended jobs, from the store's events so that the counts match the store, and requests rejected before they
// became a job.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_METRICS_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_METRICS_H_

#include <string>

#include "absl/status/status.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/metrics.h"

namespace kinora {

class JobMetrics {  // thread-safe
 public:
  explicit JobMetrics(FrontendMetrics& metrics);
  void Observe(const v1::VideoEvent& event);
  // `model`: "" if unknown.
  void CountRefused(const std::string& model, const v1::CreateVideoRequest& request, const absl::Status& status);

 private:
  FrontendMetrics& metrics_;
};

// Creates the series of a model at 0: per recipe of the model the results OK, CANCELLED, ABORTED, DEADLINE_EXCEEDED,
// INTERNAL, RESOURCE_EXHAUSTED, DATA_LOSS and UNKNOWN; requests rejected with RESOURCE_EXHAUSTED or UNAVAILABLE; its
// queue. Other series start with their first job.
void BeginSeries(FrontendMetrics& metrics, const v1::ModelInfo& model);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_METRICS_H_

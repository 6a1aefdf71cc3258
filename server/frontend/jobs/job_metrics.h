// Counts jobs at their end, from the store's events, so that what is counted is what is stored; and requests that were
// refused before they became a job.
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
  // `model`: "" if the request named none that is known.
  void CountRefused(const std::string& model, const v1::CreateVideoRequest& request, const absl::Status& status);

 private:
  FrontendMetrics& metrics_;
};

// The series of a model that jobs may name from now on, at 0: of each recipe that it has, and
// of the ends OK, CANCELLED, ABORTED, DEADLINE_EXCEEDED, INTERNAL and RESOURCE_EXHAUSTED; of requests that the server
// is too full or too broken for; of its queue. Another begins with its first job.
void BeginSeries(FrontendMetrics& metrics, const v1::ModelInfo& model);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_METRICS_H_

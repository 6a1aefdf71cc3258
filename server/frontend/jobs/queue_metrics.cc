#include "server/frontend/jobs/queue_metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

constexpr double kLeastSeconds = 0.001;  // per job, so that none counts as 0

double Median(const std::deque<double>& values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

void QueueMetrics::Change(const QueuedJob& job, int change) {
  metrics_.queue_depth.Add({{"priority", absl::StrCat(job.priority)}}).Increment(change);
  absl::MutexLock lock(&mu_);
  OfModel& of = models_[job.model];
  if (job.estimated_seconds > 0) {
    of.estimated_milliseconds += change * std::llround(1000 * std::max(kLeastSeconds, job.estimated_seconds));
  } else {
    of.not_estimated += change;
  }
  Set(job.model, of);
}

void QueueMetrics::Observe(const v1::Video& ended) {
  if (ended.state() != v1::Video::COMPLETED) return;
  const absl::Duration run = FromProto(ended.end_time()) - FromProto(ended.start_time());
  absl::MutexLock lock(&mu_);
  OfModel& of = models_[ended.model()];
  of.runs.push_back(absl::ToDoubleSeconds(run));
  if (of.runs.size() > kRunsKept) of.runs.pop_front();
  Set(ended.model(), of);
}

void QueueMetrics::Set(const std::string& model, const OfModel& of) {
  const double each = of.runs.empty() ? kUnknownSeconds : std::max(kLeastSeconds, Median(of.runs));
  metrics_.queue_seconds.Add({{"model", model}})
      .Set(static_cast<double>(of.estimated_milliseconds) / 1000 + static_cast<double>(of.not_estimated) * each);
}

}  // namespace kinora

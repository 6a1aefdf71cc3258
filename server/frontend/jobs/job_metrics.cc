#include "server/frontend/jobs/job_metrics.h"

#include "server/common/status_details.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

std::string CodeName(int code) { return absl::StatusCodeToString(static_cast<absl::StatusCode>(code)); }

std::string RecipeLabel(v1::Generation::Recipe recipe) {
  return v1::Generation::Recipe_IsValid(recipe) ? v1::Generation::Recipe_Name(recipe) : "unknown";
}

// Few words, so that the label stays bounded.
std::string RefusalReason(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  if (reason == "QUEUE_FULL" || reason == "DRAINING" || reason == "DISK_FULL" || reason == "SHAPE_TOO_LARGE" ||
      reason == "NOT_AVAILABLE_YET" || reason == "NO_MODEL" || reason == "MODEL_NOT_LOADED" ||
      reason == "REQUEST_ID_REUSED" || reason == "STATE_LOST") {
    std::string lower = reason;
    for (char& c : lower) c = c == '_' ? '_' : static_cast<char>(c - 'A' + 'a');
    return lower;
  }
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    case absl::StatusCode::kResourceExhausted:
      return "disk_full";
    default:
      return "other";
  }
}

}  // namespace

void JobMetrics::Observe(const v1::VideoEvent& event) {
  if (!event.has_terminal()) return;
  const v1::Video& video = event.terminal();
  const prometheus::Labels labels = {{"model", video.model()}, {"recipe", RecipeLabel(video.effective().recipe())}};
  prometheus::Labels with_code = labels;
  switch (video.state()) {
    case v1::Video::COMPLETED:
      with_code["code"] = "OK";
      break;
    case v1::Video::CANCELLED:
      with_code["code"] = "CANCELLED";
      break;
    default:
      with_code["code"] = CodeName(video.error().code());
  }
  metrics_.requests_total.Add(with_code).Increment();
  metrics_.device_seconds_total.Increment(video.usage().device_seconds());
  if (video.state() != v1::Video::COMPLETED) return;
  const absl::Duration duration = FromProto(video.end_time()) - FromProto(video.create_time());
  metrics_.request_duration_seconds.Add(labels, RequestBuckets()).Observe(absl::ToDoubleSeconds(duration));
  for (const v1::Artifact& artifact : video.artifacts()) {
    metrics_.artifact_bytes_total.Increment(static_cast<double>(artifact.bytes()));
  }
}

void JobMetrics::CountRefused(const std::string& model, const v1::CreateVideoRequest& request,
                              const absl::Status& status) {
  metrics_.requests_total
      .Add({{"model", model.empty() ? "unknown" : model},
            {"recipe", RecipeLabel(request.generation().recipe())},
            {"code", absl::StatusCodeToString(status.code())}})
      .Increment();
  metrics_.admission_rejected_total.Add({{"reason", RefusalReason(status)}}).Increment();
}

}  // namespace kinora

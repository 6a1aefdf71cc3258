#include "server/frontend/jobs/job_metrics.h"

#include "absl/strings/ascii.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

std::string CodeName(int code) { return absl::StatusCodeToString(static_cast<absl::StatusCode>(code)); }

std::string RecipeLabel(v1::Generation::Recipe recipe) {
  return v1::Generation::Recipe_IsValid(recipe) ? v1::Generation::Recipe_Name(recipe) : "unknown";
}

constexpr const char* kRejectReasons[] = {"QUEUE_FULL",       "DRAINING",          "DISK_FULL",
                                          "SHAPE_TOO_LARGE",  "NOT_AVAILABLE_YET", "NO_MODEL",
                                          "MODEL_NOT_LOADED", "REQUEST_ID_REUSED", "STATE_LOST"};
constexpr const char* kOtherReasons[] = {"invalid", "unauthenticated", "other"};  // derived from the code

// A fixed set of values, so that the label is bounded.
std::string RejectReason(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  for (const char* known : kRejectReasons) {
    if (reason == known) return absl::AsciiStrToLower(reason);
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

// One series per recipe, since a rejected request may have any or none.
void BeginRefusals(FrontendMetrics& metrics, const std::string& model, std::initializer_list<const char*> codes) {
  for (int recipe = v1::Generation::Recipe_MIN; recipe <= v1::Generation::Recipe_MAX; ++recipe) {
    for (const char* code : codes) {
      metrics.requests_total.Add(
          {{"model", model}, {"recipe", RecipeLabel(static_cast<v1::Generation::Recipe>(recipe))}, {"code", code}});
    }
  }
}

}  // namespace

JobMetrics::JobMetrics(FrontendMetrics& metrics) : metrics_(metrics) {
  BeginRefusals(metrics_, "unknown",
                {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAVAILABLE", "UNIMPLEMENTED", "UNAUTHENTICATED"});
  for (const char* reason : kRejectReasons) {
    metrics_.admission_rejected_total.Add({{"reason", absl::AsciiStrToLower(reason)}});
  }
  for (const char* reason : kOtherReasons) metrics_.admission_rejected_total.Add({{"reason", reason}});
}

void BeginSeries(FrontendMetrics& metrics, const v1::ModelInfo& model) {
  metrics.queue_seconds.Add({{"model", model.id()}});
  BeginRefusals(metrics, model.id(), {"RESOURCE_EXHAUSTED", "UNAVAILABLE"});
  for (const int recipe : model.recipes()) {
    const prometheus::Labels labels = {{"model", model.id()},
                                       {"recipe", RecipeLabel(static_cast<v1::Generation::Recipe>(recipe))}};
    metrics.request_duration_seconds.Add(labels, RequestBuckets());
    for (const char* code : {"OK", "CANCELLED", "ABORTED", "DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED",
                             "DATA_LOSS", "UNKNOWN"}) {
      prometheus::Labels with_code = labels;
      with_code["code"] = code;
      metrics.requests_total.Add(with_code);
    }
  }
}

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
  metrics_.admission_rejected_total.Add({{"reason", RejectReason(status)}}).Increment();
}

}  // namespace kinora

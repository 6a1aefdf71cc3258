#include "server/frontend/artifacts/bucket_home.h"

#include <sys/stat.h>

#include <cerrno>

#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"

namespace kinora {
namespace {

std::string FirstSet(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

// The label of kinora_s3_requests_total, of which there are few.
const char* OutcomeOf(const S3Request& request) {
  if (request.status == 0) return "no_reply";
  if (request.code == "OK") return "ok";
  if (request.status == 401 || request.status == 403) return "denied";
  if (request.status == 404) return "not_found";
  if (request.status == 412) return "exists";
  if (request.status == 416) return "past_end";
  if (request.status == 429 || request.status == 503) return "slow_down";
  return request.status >= 500 ? "server_error" : "other";
}

// The labels of kinora_s3_requests_total.
constexpr const char* kOperations[] = {"GetKeys",
                                       "GetObject",
                                       "PutObject",
                                       "DeleteObject",
                                       "UploadPart",
                                       "CreateMultipartUpload",
                                       "ListObjectsV2",
                                       "CompleteMultipartUpload",
                                       "AbortMultipartUpload"};
constexpr const char* kOutcomes[] = {"ok",        "not_found",    "exists",   "past_end", "denied",
                                     "slow_down", "server_error", "no_reply", "other"};

S3Observer Observer(FrontendMetrics& metrics) {
  for (const char* operation : kOperations) {
    for (const char* outcome : kOutcomes) {
      metrics.s3_requests_total.Add({{"operation", operation}, {"outcome", outcome}});
    }
  }
  return [&metrics](const S3Request& request) {
    const std::string operation = request.operation;
    metrics.s3_requests_total.Add({{"operation", operation}, {"outcome", OutcomeOf(request)}}).Increment();
    metrics.s3_request_seconds.Add({{"operation", operation}}, StepBuckets())
        .Observe(absl::ToDoubleSeconds(request.took));
  };
}

}  // namespace

S3Options BucketOf(const v1::FrontendConfig& config, const Environment& environment) {
  S3Options options{.url = config.artifacts(),
                    .endpoint = config.s3_endpoint(),
                    .region = config.s3_region(),
                    .path_style = config.s3_path_style()};
  if (options.endpoint.empty()) options.endpoint = FirstSet(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (options.region.empty()) options.region = FirstSet(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  return options;
}

BucketHome::BucketHome(const S3Location& location, const std::string& spool, Clocks clocks, FrontendMetrics& metrics)
    : http_(ProcessEnvironment("AWS_CA_BUNDLE")),
      credentials_(location.region, http_, clocks.date),
      calls_(location, http_, credentials_, clocks, Observer(metrics)),
      store_(calls_, spool) {}

absl::StatusOr<std::unique_ptr<ArtifactHome>> BucketHome::Open(const S3Options& options, const StateDirectory& state,
                                                               Clocks clocks, FrontendMetrics& metrics) {
  KINORA_ASSIGN_OR_RETURN(const S3Location location, LocateBucket(options));
  const std::string spool = state.File("spool");
  if (mkdir(spool.c_str(), 0700) != 0 && errno != EEXIST) return FileError(spool, "create directory");
  std::unique_ptr<BucketHome> home(new BucketHome(location, spool, clocks, metrics));
  KINORA_RETURN_IF_ERROR(home->Start(state, clocks.date));
  return home;
}

absl::Status BucketHome::Start(const StateDirectory& state, Clock& date) {
  absl::Status check = store_.Check();
  if (!check.ok() && !absl::IsUnavailable(check)) return check;
  if (!check.ok()) Log(Severity::kWarning, "bucket_unreachable", {{"why", std::string(check.message())}});
  KINORA_ASSIGN_OR_RETURN(parts_, BucketParts::Open(state.File("uploads"), store_, date));
  return absl::OkStatus();
}

}  // namespace kinora

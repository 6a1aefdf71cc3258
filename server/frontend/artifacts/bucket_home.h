// Artifacts in an S3 bucket, which no worker opens: the frontend passes them on.
#ifndef KINORA_SERVER_FRONTEND_ARTIFACTS_BUCKET_HOME_H_
#define KINORA_SERVER_FRONTEND_ARTIFACTS_BUCKET_HOME_H_

#include <memory>
#include <string>

#include "server/frontend/artifacts/artifact_home.h"
#include "server/frontend/artifacts/bucket_parts.h"
#include "server/s3/s3_artifact_store.h"

namespace kinora {

// The fields of the configuration, or else what the environment has for AWS's own tools: AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION.
S3Options BucketOf(const v1::FrontendConfig& config, const Environment& environment = ProcessEnvironment);

class BucketHome : public ArtifactHome {
 public:
  // Checks that the bucket can be written and read. If it cannot be reached, logs a warning and goes on, because jobs
  // are served without it.
  static absl::StatusOr<std::unique_ptr<ArtifactHome>> Open(const S3Options& options, const StateDirectory& state,
                                                            Clocks clocks, FrontendMetrics& metrics);

  ArtifactStore& artifacts() override { return store_; }
  InputParts& parts() override { return *parts_; }
  bool is_remote() const override { return true; }
  absl::Status WatchIn(StateWatch&) const override { return absl::OkStatus(); }
  std::string ForWorkers() const override { return ""; }
  std::function<void(pid_t pid)> ProcessEndListener() override {
    return [](pid_t) {};
  }
  void Stop() override { calls_.Stop(); }

 private:
  BucketHome(const S3Location& location, const std::string& spool, Clocks clocks, FrontendMetrics& metrics);
  absl::Status Start(const StateDirectory& state, Clock& date);

  HttpClient http_;
  AwsCredentials credentials_;
  S3Calls calls_;
  S3ArtifactStore store_;
  std::unique_ptr<InputParts> parts_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_ARTIFACTS_BUCKET_HOME_H_

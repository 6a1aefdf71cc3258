// Finds the keys for S3, from the same places and in the same order as AWS's own tools, of which the first that is
// configured counts:
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: a token for STS (Kubernetes: IAM roles for service accounts)
//   3. the profile AWS_PROFILE (default: "default") of AWS_SHARED_CREDENTIALS_FILE (default: ~/.aws/credentials)
//   4. AWS_CONTAINER_CREDENTIALS_FULL_URI or …_RELATIVE_URI (ECS, EKS Pod Identity)
//   5. the instance metadata service, version 2, unless AWS_EC2_METADATA_DISABLED is "true"
// Thread-safe; Get may block on the network, for half a minute at most (computed from the timeouts of HttpRequest).
#ifndef KINORA_SERVER_S3_AWS_CREDENTIALS_H_
#define KINORA_SERVER_S3_AWS_CREDENTIALS_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/s3/http_client.h"
#include "server/s3/sigv4.h"

namespace kinora {

using Environment = std::function<std::string(const char* name)>;  // "": not set
std::string ProcessEnvironment(const char* name);

class AwsCredentials {
 public:
  // region: of STS. http and date: not owned.
  AwsCredentials(std::string region, HttpClient& http, Clock& date, Environment environment = ProcessEnvironment);

  // Returns keys that are valid for at least a minute more, if their source has any. Fails with PermissionDenied if
  // none are configured or their source refuses them, and with Unavailable if it does not respond, though it once has;
  // the message names what to set.
  absl::StatusOr<AwsKeys> Get() ABSL_LOCKS_EXCLUDED(mu_);
  // The server has refused these keys: the next Get reads the source anew. Has no effect if others are in use.
  void Refuse(const AwsKeys& keys) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::StatusOr<AwsKeys> Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<AwsKeys> FromWebIdentity(const std::string& token_file);
  absl::StatusOr<AwsKeys> FromFile(const std::string& path);
  absl::StatusOr<AwsKeys> FromContainer(const std::string& url);
  absl::StatusOr<AwsKeys> FromInstance();
  absl::StatusOr<std::string> AskInstance(const std::string& method, const std::string& path, NamedValues headers);

  const std::string region_;
  HttpClient& http_;
  Clock& date_;
  const Environment environment_;
  absl::Mutex mu_;  // held while the source is read, so that only one thread asks it
  AwsKeys keys_ ABSL_GUARDED_BY(mu_);
  bool had_keys_ ABSL_GUARDED_BY(mu_) = false;  // once
  absl::Time renew_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

// The keys of a profile in the text of a credentials file. NotFound: it has none.
absl::StatusOr<AwsKeys> ProfileKeys(const std::string& text, const std::string& profile);

}  // namespace kinora

#endif  // KINORA_SERVER_S3_AWS_CREDENTIALS_H_

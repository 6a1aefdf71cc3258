// What the operator learns of calls that failed, beside what the client was told. Each kind of line is written at most
// once per second; `not_logged` of the next says how many were held back.
#ifndef KINORA_SERVER_FRONTEND_API_CALL_LOG_H_
#define KINORA_SERVER_FRONTEND_API_CALL_LOG_H_

#include <grpcpp/server_context.h>

#include <string_view>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "server/common/log_limit.h"
#include "server/frontend/jobs/job_metrics.h"

namespace kinora {

class CallLog {  // thread-safe
 public:
  explicit CallLog(JobMetrics& metrics, Clock& clock = Clock::Steady())
      : metrics_(metrics), refused_(absl::Seconds(1), clock), file_errors_(absl::Seconds(1), clock) {}

  // A call without a valid token: counted, and logged with its peer.
  void Refused(const grpc::CallbackServerContext& call, std::string_view method, const absl::Status& status);
  // An error that a call ends with: logged with the whole path if it is of a file, which the client is not told.
  void Failed(std::string_view method, const absl::Status& status);

 private:
  JobMetrics& metrics_;
  LogLimit refused_, file_errors_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_CALL_LOG_H_

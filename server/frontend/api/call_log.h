// Logs failed calls for the operator, in addition to the status that the client gets. Each kind of line is written at
// most once per second; `not_logged` in the next line counts the suppressed ones.
#ifndef KINORA_SERVER_FRONTEND_API_CALL_LOG_H_
#define KINORA_SERVER_FRONTEND_API_CALL_LOG_H_

#include <string>
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

  // Counts a call without a valid token, and logs it with its peer (PeerOf).
  void Rejected(const std::string& peer, std::string_view method, const absl::Status& status);
  // Logs the status of a failed call if it is a file error, with the full path, which the client does not see.
  void Failed(std::string_view method, const absl::Status& status);

 private:
  JobMetrics& metrics_;
  LogLimit refused_, file_errors_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_CALL_LOG_H_

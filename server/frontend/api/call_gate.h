// Who may call: checks the token that a call's headers carry, and counts and logs the calls that are refused.
#ifndef KINORA_SERVER_FRONTEND_API_CALL_GATE_H_
#define KINORA_SERVER_FRONTEND_API_CALL_GATE_H_

#include <grpcpp/server_context.h>

#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/frontend/api/token_file.h"
#include "server/frontend/jobs/job_metrics.h"

namespace kinora {

class CallGate {  // thread-safe
 public:
  // `metrics` and `clock` must outlive it.
  CallGate(TokenSet tokens, JobMetrics& metrics, Clock& clock = Clock::Real())
      : tokens_(std::move(tokens)), metrics_(metrics), clock_(clock) {}

  // Unauthenticated, with what to send.
  absl::Status Check(const grpc::CallbackServerContext& call) const;
  // A call that Check did not let in: counted, and logged with its peer, at most once per second; the next line says
  // how many were not.
  void CountRefused(const grpc::CallbackServerContext& call, std::string_view method, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const TokenSet tokens_;
  JobMetrics& metrics_;
  Clock& clock_;
  absl::Mutex mu_;
  absl::Time next_line_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  int64_t not_logged_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_CALL_GATE_H_

// grpc.health.v1: reports whether this process, the service and each group serve.
#ifndef KINORA_SERVER_FRONTEND_API_HEALTH_SERVICE_H_
#define KINORA_SERVER_FRONTEND_API_HEALTH_SERVICE_H_

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "server/frontend/api/method_service.h"

namespace kinora {

class HealthWatch;

class HealthService : public MethodService {  // thread-safe
 public:
  // Limit on open Watch calls, which need no token; more are rejected with RESOURCE_EXHAUSTED.
  static constexpr int kMaxWatches = 256;

  explicit HealthService(const CallAccess& access);
  void Set(const std::string& service, bool serving) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class HealthWatch;
  using Reply = grpc::health::v1::HealthCheckResponse;
  using Request = grpc::health::v1::HealthCheckRequest;

  void Check(const Request& request, UnaryReply<Reply> reply) ABSL_LOCKS_EXCLUDED(mu_);
  ReplyStream<Reply>* Watch(grpc::CallbackServerContext&, const Request& request) ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(HealthWatch* watch) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;  // acquired before a watch's mutex
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mu_);
  std::set<HealthWatch*> watches_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_HEALTH_SERVICE_H_

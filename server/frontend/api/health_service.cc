#include "server/frontend/api/health_service.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kinora {

using grpc::health::v1::HealthCheckResponse;

// One open Watch: sends the latest state, one write at a time. Owned by its call.
class HealthWatch : public ReplyStream<HealthCheckResponse> {
 public:
  HealthWatch(HealthService& service, std::string name) : service_(service), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  void Tell(HealthCheckResponse::ServingStatus state) {
    absl::MutexLock lock(&mu_);
    state_ = state;
    WriteIfChanged();
  }
  void End(const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    if (!std::exchange(finished_, true)) Finish(status);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return OnCancel();
    absl::MutexLock lock(&mu_);
    writing_ = false;
    WriteIfChanged();
  }
  void OnCancel() override { End(absl::CancelledError("the client disconnected")); }
  void OnDone() override {
    service_.Forget(this);
    delete this;
  }

 private:
  void WriteIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_ || state_ == told_) return;
    HealthCheckResponse reply;
    reply.set_status(state_);
    told_ = state_;
    writing_ = true;
    StartWrite(&reply);
  }

  HealthService& service_;
  const std::string name_;
  absl::Mutex mu_;
  HealthCheckResponse::ServingStatus state_ ABSL_GUARDED_BY(mu_) = HealthCheckResponse::UNKNOWN;
  HealthCheckResponse::ServingStatus told_ ABSL_GUARDED_BY(mu_) = HealthCheckResponse::UNKNOWN;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

namespace {

HealthCheckResponse::ServingStatus State(bool serving) {
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

}  // namespace

HealthService::HealthService(const CallAccess& access)
    : MethodService(Request::descriptor()->file()->FindServiceByName("Health"), access) {
  Unary("Check", &HealthService::Check);
  Streaming("Watch", &HealthService::Watch);
}

void HealthService::Set(const std::string& service, bool serving) {
  absl::MutexLock lock(&mu_);
  serving_[service] = serving;
  for (HealthWatch* watch : watches_) {
    if (watch->name() == service) watch->Tell(State(serving));
  }
}

void HealthService::Check(const Request& request, UnaryReply<Reply> reply) {
  absl::MutexLock lock(&mu_);
  const auto found = serving_.find(request.service());
  if (found == serving_.end()) {
    return reply(
        absl::NotFoundError("service: none of this name; known: \"\", kinora.v1.VideoGeneration, kinora.group.<id>"));
  }
  Reply state;
  state.set_status(State(found->second));
  reply(state);
}

ReplyStream<HealthCheckResponse>* HealthService::Watch(grpc::CallbackServerContext&, const Request& request) {
  auto* watch = new HealthWatch(*this, request.service());
  absl::MutexLock lock(&mu_);
  if (watches_.size() >= static_cast<size_t>(kMaxWatches)) {
    watch->End(absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxWatches, " health watches; use Check")));
    return watch;
  }
  watches_.insert(watch);
  const auto found = serving_.find(request.service());
  watch->Tell(found == serving_.end() ? HealthCheckResponse::SERVICE_UNKNOWN : State(found->second));
  return watch;
}

void HealthService::Forget(HealthWatch* watch) {
  absl::MutexLock lock(&mu_);
  watches_.erase(watch);
}

}  // namespace kinora

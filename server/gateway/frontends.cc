#include "server/gateway/frontends.h"

#include <utility>

#include "server/common/status_details.h"
#include "server/gateway/model_choice.h"

namespace kinora {
namespace {

constexpr size_t kMostKnown = 100'000;  // jobs; about 10 MB

class ModelsOfAll {
 public:
  ModelsOfAll(size_t frontends, OnReply<v1::ListModelsResponse> on_reply)
      : on_reply_(std::move(on_reply)), awaited_(frontends) {}

  void Add(const absl::StatusOr<v1::ListModelsResponse>& listed) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::StatusOr<v1::ListModelsResponse> all;
    {
      absl::MutexLock lock(&mu_);
      any_ |= listed.ok();
      if (listed.ok()) union_.Add(*listed);
      if (!listed.ok()) failed_ = listed.status();
      if (--awaited_ > 0) return;
      if (any_) {
        all = union_.Get();
      } else {
        all = failed_;
      }
    }
    on_reply_(std::move(all));
  }

 private:
  const OnReply<v1::ListModelsResponse> on_reply_;
  absl::Mutex mu_;
  size_t awaited_ ABSL_GUARDED_BY(mu_);
  bool any_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  ModelUnion union_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void CurrentCall::Set(const FrontendCallPtr& call) {
  bool cancel = false;
  {
    absl::MutexLock lock(&mu_);
    cancel = cancelled_;
    call_ = call;
  }
  if (cancel) call->Cancel();
}

void CurrentCall::Cancel() {
  FrontendCallPtr call;
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    call = call_.lock();
  }
  if (call != nullptr) call->Cancel();
}

bool AnotherMayTakeIt(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) || ErrorReason(status) == "MODEL_NOT_LOADED";
}

std::vector<FrontendClient*> Frontends::InTurn(const std::string& key) {
  size_t from = std::hash<std::string>()(key);
  if (key.empty()) {
    absl::MutexLock lock(&mu_);
    from = turn_++;
  }
  std::vector<FrontendClient*> order;
  for (size_t i = 0; i < frontends_.size(); ++i) order.push_back(frontends_[(from + i) % frontends_.size()].get());
  return order;
}

void Frontends::ListModels(const Caller& caller, OnReply<v1::ListModelsResponse> on_reply) const {
  const auto models = std::make_shared<ModelsOfAll>(frontends_.size(), std::move(on_reply));
  for (const auto& frontend : frontends_) {
    frontend->ListModels(caller,
                         [models](const absl::StatusOr<v1::ListModelsResponse>& listed) { models->Add(listed); });
  }
}

void Frontends::Remember(const std::string& id, FrontendClient* frontend) {
  if (frontends_.size() == 1) return;
  absl::MutexLock lock(&mu_);
  if (!known_.insert_or_assign(id, frontend).second) return;
  order_.push_back(id);
  if (order_.size() <= kMostKnown) return;
  known_.erase(order_.front());
  order_.pop_front();
}

void Frontends::Find(const Caller& caller, const std::string& id, const CurrentCallPtr& call,
                     const std::function<void(absl::StatusOr<FrontendClient*>)>& on_found) {
  if (frontends_.size() == 1) return on_found(frontends_.front().get());
  FrontendClient* known = nullptr;
  {
    absl::MutexLock lock(&mu_);
    const auto found = known_.find(id);
    if (found != known_.end()) known = found->second;
  }
  if (known != nullptr) return on_found(known);
  Ask(caller, id, call, 0, absl::OkStatus(), on_found);
}

void Frontends::Ask(const Caller& caller, const std::string& id, const CurrentCallPtr& call, size_t index,
                    const absl::Status& failed, const std::function<void(absl::StatusOr<FrontendClient*>)>& on_found) {
  if (index == frontends_.size()) return on_found(failed);
  FrontendClient* frontend = frontends_[index].get();
  call->Set(frontend->GetVideo(caller, id, [=, this](const absl::StatusOr<v1::Video>& video) {
    if (video.ok()) {
      Remember(id, frontend);
      return on_found(frontend);
    }
    // NOT_FOUND weighs least, but more if it knows that the job has expired.
    const bool weightier = failed.ok() || !absl::IsNotFound(video.status()) ||
                           (absl::IsNotFound(failed) && !ErrorReason(video.status()).empty());
    Ask(caller, id, call, index + 1, weightier ? video.status() : failed, on_found);
  }));
}

}  // namespace kinora

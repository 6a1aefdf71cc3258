// The frontends behind a gateway. Each has its own jobs, inputs and models; clients of the gateway see one server:
//
// - A job is created at one of them, in turn; the next one is tried if it cannot be reached, is stopping, is full or
//   does not serve the model.
// - A job is found by asking them one after another, and remembered.
// - Lists are merged.
#ifndef KINORA_SERVER_GATEWAY_FRONTENDS_H_
#define KINORA_SERVER_GATEWAY_FRONTENDS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/gateway/frontend_client.h"

namespace kinora {

// The call that an exchange is waiting for, so that it ends when the client leaves.
class CurrentCall {  // thread-safe
 public:
  void Set(const FrontendCallPtr& call) ABSL_LOCKS_EXCLUDED(mu_);
  void Cancel() ABSL_LOCKS_EXCLUDED(mu_);  // the present call and later ones

 private:
  absl::Mutex mu_;
  std::weak_ptr<FrontendCall> call_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};
using CurrentCallPtr = std::shared_ptr<CurrentCall>;

class Frontends {  // thread-safe
 public:
  using List = std::vector<std::unique_ptr<FrontendClient>>;

  explicit Frontends(List frontends) : frontends_(std::move(frontends)) {}

  const List& all() const { return frontends_; }
  // All of them, each call beginning with the next; with a key (not empty), always with the same one.
  std::vector<FrontendClient*> InTurn(const std::string& key) ABSL_LOCKS_EXCLUDED(mu_);

  // The models of all frontends as one list (model_choice.h). Those that fail are left out; if all do, fails with the
  // last error.
  void ListModels(const Caller& caller, OnReply<v1::ListModelsResponse> on_reply) const;

  // Finds the frontend that has the job. Fails with the error of GetVideo: NOT_FOUND, or UNAVAILABLE if one of those
  // that might have it cannot be reached. With one frontend, returns that without asking.
  void Find(const Caller& caller, const std::string& id, const CurrentCallPtr& call,
            const std::function<void(absl::StatusOr<FrontendClient*>)>& on_found) ABSL_LOCKS_EXCLUDED(mu_);
  void Remember(const std::string& id, FrontendClient* frontend) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Ask(const Caller& caller, const std::string& id, const CurrentCallPtr& call, size_t index,
           const absl::Status& failed, const std::function<void(absl::StatusOr<FrontendClient*>)>& on_found);

  const List frontends_;
  absl::Mutex mu_;
  size_t turn_ ABSL_GUARDED_BY(mu_) = 0;
  std::unordered_map<std::string, FrontendClient*> known_ ABSL_GUARDED_BY(mu_);  // by job
  std::deque<std::string> order_ ABSL_GUARDED_BY(mu_);                           // of known_, the oldest first
};

// Whether another frontend may take a request that one rejected with `status`.
bool AnotherMayTakeIt(const absl::Status& status);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_FRONTENDS_H_

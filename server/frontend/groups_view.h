// The state of the worker groups as the dispatcher last reported it, for the other parts of the frontend. Thread-safe.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_VIEW_H_
#define KINORA_SERVER_FRONTEND_GROUPS_VIEW_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/frontend/api/request_validation.h"
#include "server/frontend/groups/dispatcher.h"

namespace kinora {

class GroupsView {
 public:
  explicit GroupsView(Clock& steady) : steady_(steady) {}

  void Set(const GroupsHealth& health) ABSL_LOCKS_EXCLUDED(mu_);
  GroupsHealth Get() const ABSL_LOCKS_EXCLUDED(mu_);

  Absence WhatIsAbsent() const;
  absl::Status Ready() const;                            // Unavailable, with the reason: no group is ready
  std::string WaitsFor(const std::string& model) const;  // Video.waits_for
  // True if a group listed the LoRA within kLoraComesBack: its file may be in the middle of a replacement.
  bool ComesBack(const std::string& model, const std::string& lora) const;

 private:
  Clock& steady_;
  mutable absl::Mutex mu_;
  GroupsHealth health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_VIEW_H_

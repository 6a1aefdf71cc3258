#include "server/frontend/groups_view.h"

#include "absl/strings/str_cat.h"

namespace kinora {

void GroupsView::Set(const GroupsHealth& health) {
  absl::MutexLock lock(&mu_);
  health_ = health;
}

GroupsHealth GroupsView::Get() const {
  absl::MutexLock lock(&mu_);
  return health_;
}

Absence GroupsView::WhatIsAbsent() const {
  absl::MutexLock lock(&mu_);
  const bool none = health_.groups.empty() && health_.absent.empty();
  return {.why = none ? "this frontend has no groups; start it with --worker-model or groups" : health_.absent,
          .passes = !health_.failed,
          .loading = health_.loading};
}

absl::Status GroupsView::Ready() const {
  absl::MutexLock lock(&mu_);
  if (health_.ready) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no worker group is ready", health_.absent.empty() ? "" : ": ", health_.absent));
}

std::string GroupsView::WaitsFor(const std::string& model) const {
  const bool served = Get().models.contains(model);
  return served ? "" : WhatIsAbsent().why;
}

bool GroupsView::ComesBack(const std::string& model, const std::string& lora) const {
  absl::MutexLock lock(&mu_);
  const auto gone = health_.gone_loras.find(LoraOfModel(model, lora));
  return gone != health_.gone_loras.end() && steady_.Now() - gone->second < kLoraComesBack;
}

}  // namespace kinora

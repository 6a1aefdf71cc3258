#include "server/frontend/api/call_slots.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/common/status_details.h"

namespace kinora {

absl::Status CallSlots::Full(const char* suffix, int limit) const {
  return WithRetryInfo(
      absl::ResourceExhaustedError(absl::StrCat("max_", calls_, suffix, ": ", limit, " ", calls_, " are already open")),
      absl::Seconds(10));
}

absl::StatusOr<std::unique_ptr<CallSlots::Slot>> CallSlots::Take(const std::string& client) {
  absl::MutexLock lock(&mu_);
  if (open_ >= all_) return Full("", all_);
  const auto mine = of_client_.find(client);
  if (mine != of_client_.end() && mine->second >= per_client_) return Full("_per_client", per_client_);
  of_client_[client] += 1;
  count_(++open_);
  return std::make_unique<Slot>(*this, client);
}

void CallSlots::Leave(const std::string& client) {
  absl::MutexLock lock(&mu_);
  const auto mine = of_client_.find(client);
  if (--mine->second == 0) of_client_.erase(mine);
  count_(--open_);
}

}  // namespace kinora

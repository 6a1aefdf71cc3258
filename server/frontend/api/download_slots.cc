#include "server/frontend/api/download_slots.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

absl::Status Full(const char* limit, int value) {
  return WithRetryInfo(absl::ResourceExhaustedError(absl::StrCat(limit, ": ", value, " downloads are open")),
                       absl::Seconds(10));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DownloadSlots::Slot>> DownloadSlots::Take(const std::string& client) {
  absl::MutexLock lock(&mu_);
  if (open_ >= all_) return Full("max_downloads", all_);
  const auto mine = of_client_.find(client);
  if (mine != of_client_.end() && mine->second >= per_client_) return Full("max_downloads_per_client", per_client_);
  of_client_[client] += 1;
  count_(++open_);
  return std::make_unique<Slot>(*this, client);
}

void DownloadSlots::Leave(const std::string& client) {
  absl::MutexLock lock(&mu_);
  const auto mine = of_client_.find(client);
  if (--mine->second == 0) of_client_.erase(mine);
  count_(--open_);
}

}  // namespace kinora

#include "engine/weights/factor_cache.h"

#include <algorithm>

#include "engine/base/status_macros.h"

namespace kinora {

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> FactorCache::Get(
    const std::shared_ptr<const SafetensorsFile>& file, bool counted) {
  absl::MutexLock lock(&mu_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.file == file; });
  if (counted) ++(found != kept_.end() ? counts_.hits : counts_.misses);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().loaded;
  }
  if (file->bytes() > max_bytes_) return file;
  while (counts_.bytes + file->bytes() > max_bytes_) {
    counts_.bytes -= kept_.back().file->bytes();
    kept_.pop_back();
  }
  KINORA_ASSIGN_OR_RETURN(auto loaded, file->Loaded());
  kept_.push_front({.file = file, .loaded = loaded});
  counts_.bytes += file->bytes();
  return loaded;
}

FactorCache::Counts FactorCache::counts() const {
  absl::MutexLock lock(&mu_);
  return counts_;
}

}  // namespace kinora

#include "engine/weights/factor_cache.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr absl::Duration kBetweenWords = absl::Milliseconds(500);  // between calls of on_piece while waiting

}  // namespace

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> FactorCache::FindOrBegin(
    const std::shared_ptr<const SafetensorsFile>& file, bool counted, absl::FunctionRef<absl::Status()> on_piece) {
  const auto idle = [this] {
    mu_.AssertHeld();
    return !reading_;
  };
  absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&idle), kBetweenWords)) KINORA_RETURN_IF_ERROR(on_piece());
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
  reading_ = true;
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> FactorCache::Get(
    const std::shared_ptr<const SafetensorsFile>& file, bool counted, absl::FunctionRef<absl::Status()> on_piece) {
  KINORA_ASSIGN_OR_RETURN(const auto kept, FindOrBegin(file, counted, on_piece));
  if (kept != nullptr) return kept;
  const absl::Cleanup end = [this] {
    absl::MutexLock lock(&mu_);
    reading_ = false;
  };
  auto loaded = file->Loaded(on_piece);
  if (absl::IsResourceExhausted(loaded.status())) return file;
  KINORA_RETURN_IF_ERROR(loaded.status());
  absl::MutexLock lock(&mu_);
  kept_.push_front({.file = file, .loaded = *loaded});
  counts_.bytes += file->bytes();
  return *std::move(loaded);
}

FactorCache::Counts FactorCache::counts() const {
  absl::MutexLock lock(&mu_);
  return counts_;
}

}  // namespace kinora

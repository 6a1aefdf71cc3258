#include "engine/base/fallbacks.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kinora {
namespace {

struct Counts {
  absl::Mutex mu;
  std::map<std::pair<std::string, std::string>, int64_t> by_op_and_reason ABSL_GUARDED_BY(mu);
};

Counts& AllCounts() {
  static auto* counts = new Counts;
  return *counts;
}

}  // namespace

void CountFallback(std::string_view op, std::string_view reason, int64_t n) {
  Counts& counts = AllCounts();
  absl::MutexLock lock(&counts.mu);
  counts.by_op_and_reason[{std::string(op), std::string(reason)}] += n;
}

std::vector<FallbackCount> FallbackCounts() {
  Counts& counts = AllCounts();
  absl::MutexLock lock(&counts.mu);
  std::vector<FallbackCount> all;
  for (const auto& [key, count] : counts.by_op_and_reason) all.push_back({key.first, key.second, count});
  return all;
}

}  // namespace kinora

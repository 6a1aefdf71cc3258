// Counts of ops that a backend computed in a slower way than expected, for the metrics of this process. Thread-safe.
#ifndef KINORA_ENGINE_BASE_FALLBACKS_H_
#define KINORA_ENGINE_BASE_FALLBACKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinora {

struct FallbackCount {
  std::string op, reason;
  int64_t count = 0;
};

// Adds to the count of an op and reason, which starts to exist with the first call; n may be 0.
void CountFallback(std::string_view op, std::string_view reason, int64_t n);
// Returns all counts of this process, ordered by op and reason.
std::vector<FallbackCount> FallbackCounts();

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_FALLBACKS_H_

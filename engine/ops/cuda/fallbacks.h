// Calls that cuDNN should take and does not, so that products compute them at many times the cost. Forms that are never
// given to cuDNN (docs/cuda.md) are not among them.
#ifndef KINORA_ENGINE_OPS_CUDA_FALLBACKS_H_
#define KINORA_ENGINE_OPS_CUDA_FALLBACKS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kinora {

struct Fallback {
  enum class Op : uint8_t { kAttention, kConvolution };
  enum class Reason : uint8_t {
    kRefused,    // cuDNN has no engine
    kAlignment,  // an operand is not aligned to 16 bytes
    kSize,       // one frame exceeds the limits of a run (conv_runs.h)
  };
  Op op{};
  Reason reason{};
  std::string shape;   // for people
  int64_t values = 0;  // that the products write besides the result: logits, or pixels under taps
  std::string why;     // cuDNN's message, or ""
};

// The most values of a fallback: with more, a call takes tenths of a second on any device.
inline constexpr int64_t kMostFallbackValues = int64_t{1} << 28;

// Used by one thread at a time.
class Fallbacks {
 public:
  // Creates the counts of all ops and reasons (engine/base/fallbacks.h), at 0.
  explicit Fallbacks(int64_t most_values = kMostFallbackValues);
  // Counts the call and logs the warning `cuda_fallback`, once per shape. Fails with FailedPrecondition, saying why and
  // what to do, if it has more than `most_values`.
  absl::Status Take(const Fallback& fallback);

 private:
  const int64_t most_values_;
  std::set<std::string> logged_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_FALLBACKS_H_

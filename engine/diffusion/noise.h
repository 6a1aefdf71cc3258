// Standard normal noise like that of torch's CPU generator, so that a seed gives the same clip as in the reference.
#ifndef KINORA_ENGINE_DIFFUSION_NOISE_H_
#define KINORA_ENGINE_DIFFUSION_NOISE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/diffusion/mersenne_twister.h"

namespace kinora {

// torch.Generator("cpu").manual_seed(seed) and torch.randn(..., generator=...)
// (ATen/native/cpu/DistributionTemplates.h, ATen/core/DistributionsHelper.h). Successive draws continue one sequence.
// float32 values equal torch's to 4 ulp, because torch's vectorised logarithm and sine are approximations.
class NoiseSource {
 public:
  explicit NoiseSource(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}  // torch keeps the low 32 bits

  // Draws out.size() values as torch does for a tensor of that many elements and this dtype.
  void Fill(absl::Span<float> out);
  void Fill(absl::Span<double> out);
  // Fill in two parts: takes the values' random bits from the generator, and returns a task that computes the values
  // from them, on any thread. The memory of `out` must outlive the task.
  std::function<void()> Take(absl::Span<float> out);
  std::function<void()> Take(absl::Span<double> out);
  // Like Take, but only for the first part of `out`, and sets `out` to the rest, which is empty after the last part.
  // Threads can share the tasks. The parts together have the bits of one draw.
  std::function<void()> TakePart(absl::Span<float>& out);
  // Leaves the generator as after Fill of `count` float32 values.
  void Skip(int64_t count);

 private:
  double UniformDouble();                   // 53 bits
  void Uniform(absl::Span<float> values);   // 24 bits each
  void Uniform(absl::Span<double> values);  // 53 bits each
  double NextNormal();
  template <typename Real>
  std::function<void()> TakeSpan(absl::Span<Real> out);

  MersenneTwister engine_;
  std::optional<double> spare_;  // the second of a pair, kept for the next small draw
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_NOISE_H_

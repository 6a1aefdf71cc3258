// Standard normal noise as torch's CPU generator draws it, so that a seed means the same picture as in the reference.
#ifndef KINORA_ENGINE_DIFFUSION_NOISE_H_
#define KINORA_ENGINE_DIFFUSION_NOISE_H_

#include <cstdint>
#include <optional>
#include <random>

#include "absl/types/span.h"

namespace kinora {

// torch.Generator("cpu").manual_seed(seed) and torch.randn(..., generator=...) on float32
// (ATen/native/cpu/DistributionTemplates.h, ATen/core/DistributionsHelper.h). Successive draws continue the same
// sequence. Equal to torch to 4 ulp: its vectorised logarithm and sine are approximations, ours are not.
class NoiseSource {
 public:
  explicit NoiseSource(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}  // torch keeps the low 32 bits

  void Fill(absl::Span<float> out);  // out.size() values, whatever their shape
  // The same on float64.
  void Fill(absl::Span<double> out);

 private:
  double UniformDouble();       // 53 bits
  void Uniform(float& value);   // 24 bits
  void Uniform(double& value);  // 53 bits
  double NextNormal();
  template <typename Real>
  void FillSpan(absl::Span<Real> out);

  std::mt19937 engine_;
  std::optional<double> spare_;  // the second of a pair, kept for the next small draw
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_NOISE_H_

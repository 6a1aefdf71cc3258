// The denoising loop's arithmetic on contiguous float32 tensors. Values that change from step to step are read on the
// device. Sums run in one fixed order, the same on every device, so all ranks get the same bits.
#ifndef KINORA_KERNELS_SAMPLING_H_
#define KINORA_KERNELS_SAMPLING_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/rows.h"

namespace kinora::kernels {

// x0[p·tokens + t] = z[t] − sigma[t]·v[p·tokens + t], each a row of `channels`. Minimum traffic: v and x0 once, z
// once per pass, mostly from the second-level cache.
struct PredictX0 {
  const float *z = nullptr, *v = nullptr, *sigma = nullptr;
  float* x0 = nullptr;
  int64_t passes = 0, tokens = 0, channels = 0;
  bool sigma_per_token = false;  // false: sigma[0] for all
};

// Returns cudaErrorInvalidValue if there are no elements or an operand is missing.
cudaError_t LaunchPredictX0(const PredictX0& args, cudaStream_t stream);

// The sum of one of a tensor's fixed parts, and the squared distances from the part's mean.
struct SpreadPart {
  double sum, squares;
};
inline constexpr int kSpreadParts = 256;

// x0[i] = Σ weights[p]·x0_p[i], where x0_p is v[p] if sigma is null, otherwise as in PredictX0. Then:
// - if r = weights[passes] != 0 and x0 is not constant: x0 *= r·std(x0_cond) / std(x0) + 1 − r (unbiased, double);
// - if `clean` is set: x0 = x0·(1 + slot 0) + clean·slot 2 of `blend`;
// - if `sigmas` is set: z as by LaunchEulerStep.
// Two launches. Minimum traffic: v and x0 once, and x0 twice more if anything follows the sum; z twice, and once more
// to write it; clean once.
struct GuidedStep {
  const float *v = nullptr, *weights = nullptr;  // [passes, tokens, channels], [passes + 1]
  const float* sigma = nullptr;                  // [1] or [tokens]; null: v holds the predictions
  float* x0 = nullptr;                           // [tokens, channels]
  int64_t tokens = 0, channels = 0;
  int passes = 0, cond = 0;
  bool sigma_per_token = false;
  const float* clean = nullptr;   // [tokens, channels], or null
  Modulation blend = {};          // without a base
  const float* sigmas = nullptr;  // [2], or null
  float* z = nullptr;             // [tokens, channels]; null without sigma and sigmas
  SpreadPart* parts = nullptr;    // [2 · kSpreadParts], of x0 and of x0_cond, for use between the launches
};

// Returns cudaErrorInvalidValue if there are no elements or passes, cond is not a pass, or a required operand is
// missing.
cudaError_t LaunchGuidedStep(const GuidedStep& args, cudaStream_t stream);

// z[i] += (z[i] − x0[i]) / sigmas[0] · (sigmas[1] − sigmas[0]). Minimum traffic: x0 and z once, z once more.
cudaError_t LaunchEulerStep(const float* x0, const float* sigmas, float* z, int64_t elements, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SAMPLING_H_

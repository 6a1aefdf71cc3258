// The denoising loop's arithmetic on whole float32 tensors without gaps. What changes from step to step is read on the
// device. Sums run in one fixed order, the same on every device: all ranks get the same bits.
#ifndef KINORA_KERNELS_SAMPLING_H_
#define KINORA_KERNELS_SAMPLING_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// x0[p·tokens + t] = z[t] − sigma[t]·v[p·tokens + t], each a row of `channels`. Bytes at least: v and x0 once, z once
// per pass, mostly from the second-level cache.
struct PredictX0 {
  const float *z = nullptr, *v = nullptr, *sigma = nullptr;
  float* x0 = nullptr;
  int64_t passes = 0, tokens = 0, channels = 0;
  bool sigma_per_token = false;  // false: sigma[0] for all
};

// cudaErrorInvalidValue: nothing to do or nothing to do it on.
cudaError_t LaunchPredictX0(const PredictX0& args, cudaStream_t stream);

// Of one of the fixed parts of a tensor: its sum and the squared distances from its own mean.
struct SpreadPart {
  double sum, squares;
};
inline constexpr int kSpreadParts = 256;

// out[i] = Σ weights[p]·x0[p, i]; then, if r = weights[passes] != 0 and out is not constant: out *= r·std(x0[cond]) /
// std(out) + 1 − r, both unbiased and in double. Two launches, the second of which does nothing without r.
// Bytes at least: x0 and out once; with r also x0[cond] once, out three times.
struct CombineGuidance {
  const float *x0 = nullptr, *weights = nullptr;  // [passes, elements], [passes + 1]
  float* out = nullptr;
  int64_t elements = 0;
  int passes = 0, cond = 0;
  SpreadPart* parts = nullptr;  // [2 · kSpreadParts], of out and of x0[cond], for use between the launches
};

// cudaErrorInvalidValue: no elements, no passes, or cond none of them.
cudaError_t LaunchCombineGuidance(const CombineGuidance& args, cudaStream_t stream);

// z[i] += (z[i] − x0[i]) / sigmas[0] · (sigmas[1] − sigmas[0]). Bytes at least: x0 and z once, z once more.
cudaError_t LaunchEulerStep(const float* x0, const float* sigmas, float* z, int64_t elements, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SAMPLING_H_

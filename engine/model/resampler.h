// Resamples given sound to the rate of a model, like torchaudio.functional.resample with its defaults: a sinc with six
// zero crossings per side under a Hann window, cut off at 0.99 of half the lower rate. Runs on the host, once per
// input.
#ifndef KINORA_ENGINE_MODEL_RESAMPLER_H_
#define KINORA_ENGINE_MODEL_RESAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kinora {

// Returns the number of samples after resampling: ⌈to · samples / from⌉. from, to: rates, 1..2^20.
int64_t ResampledLength(int64_t samples, int64_t from, int64_t to);

// Resamples one channel, without delay, taking it as zero before and after. Equal rates: returns a copy.
std::vector<float> Resample(absl::Span<const float> sound, int64_t from, int64_t to);

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_RESAMPLER_H_

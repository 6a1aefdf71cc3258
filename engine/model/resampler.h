// Given sound at the rate that a model hears, as torchaudio.functional.resample with its defaults does: a sinc of six
// zero crossings a side under a Hann window, cut off at 0.99 of the lower rate's half. On the host: once per input.
#ifndef KINORA_ENGINE_MODEL_RESAMPLER_H_
#define KINORA_ENGINE_MODEL_RESAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kinora {

// Samples that `samples` at rate `from` become at rate `to`: ⌈to · samples / from⌉. Rates: 1..2^20.
int64_t ResampledLength(int64_t samples, int64_t from, int64_t to);

// One channel, without delay; zeros before and after it. Equal rates: a copy.
std::vector<float> Resample(absl::Span<const float> sound, int64_t from, int64_t to);

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_RESAMPLER_H_

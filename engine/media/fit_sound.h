// The sound of a clip beside its picture.
#ifndef KINORA_ENGINE_MEDIA_FIT_SOUND_H_
#define KINORA_ENGINE_MEDIA_FIT_SOUND_H_

#include <cstdint>
#include <vector>

namespace kinora {

// waveform [channels, samples] -> [channels, wanted]: silence behind it, or its end cut off. Either way its last 10 ms
// fade out: a model decodes whole steps of its latents, up to 40 ms beside the picture's end, and what it says in the
// last of them is the edge of its convolutions, a tick in a silent clip. A waveform that fits is itself.
std::vector<float> FitSound(const float* waveform, int64_t channels, int64_t samples, int64_t wanted, int sample_rate);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_FIT_SOUND_H_

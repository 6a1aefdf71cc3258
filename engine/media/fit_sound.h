// Fits the sound of a clip to the duration of its picture.
#ifndef KINORA_ENGINE_MEDIA_FIT_SOUND_H_
#define KINORA_ENGINE_MEDIA_FIT_SOUND_H_

#include <cstdint>
#include <vector>

namespace kinora {

// Pads waveform [channels, samples] with silence, or cuts it off, to [channels, wanted]. In both cases its last 10 ms
// fade out: a model decodes whole latents, so its sound can end up to 40 ms before or after the picture, and the edge
// of its convolutions is audible as a tick in a silent clip. Returns a waveform of the right length unchanged.
std::vector<float> FitSound(const float* waveform, int64_t channels, int64_t samples, int64_t wanted, int sample_rate);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_FIT_SOUND_H_

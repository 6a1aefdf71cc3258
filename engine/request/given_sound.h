// The sound of audio-to-video: the samples that a clip uses, and the length of the clip that it fills.
#ifndef KINORA_ENGINE_REQUEST_GIVEN_SOUND_H_
#define KINORA_ENGINE_REQUEST_GIVEN_SOUND_H_

#include <cstdint>

#include "engine/request/request.h"

namespace kinora {

// A range of samples in each channel.
struct SoundSpan {
  int64_t begin = 0, samples = 0;
  int64_t sample_rate = 0;  // Hz
  bool operator==(const SoundSpan&) const = default;
};

// Returns the samples that a clip uses: from start_seconds, for num_frames / frame_rate seconds, rounded to whole
// samples, halves to even. The span may end beyond the sound. An unread sound counts as 48,000 samples per second.
SoundSpan HeardSpan(const AudioGuide& guide, int64_t num_frames, double frame_rate);

// Returns the most frames, 1 more than a multiple of frame_multiple, that the sound lasts for; 0 if it lasts for none.
// guide.audio must not be null.
int64_t FramesHeard(const AudioGuide& guide, double frame_rate, int64_t frame_multiple);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_GIVEN_SOUND_H_

// The sound of audio-to-video on the clip's clock: which of its samples the clip hears, and how long a clip it makes.
#ifndef KINORA_ENGINE_REQUEST_GIVEN_SOUND_H_
#define KINORA_ENGINE_REQUEST_GIVEN_SOUND_H_

#include <cstdint>

#include "engine/request/request.h"

namespace kinora {

// Of each channel.
struct SoundSpan {
  int64_t begin = 0, samples = 0;
  int64_t sample_rate = 0;  // Hz
  bool operator==(const SoundSpan&) const = default;
};

// What a clip of so many frames hears: from start_seconds on, for num_frames / frame_rate seconds. Rounded
// to whole samples, halves to even. It may end beyond the sound. A sound that was not read yet counts as one of 48,000
// samples per second.
SoundSpan HeardSpan(const AudioGuide& guide, int64_t num_frames, double frame_rate);

// Of a request with its defaults: it leaves the number of frames to a sound that was not read yet.
bool FramesAreUnknown(const GenerationRequest& request);

// The most frames, 1 more than a multiple of frame_multiple, that the sound lasts for; 0: it lasts for none.
// guide.audio: not null.
int64_t FramesHeard(const AudioGuide& guide, double frame_rate, int64_t frame_multiple);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_GIVEN_SOUND_H_

#include "engine/request/given_sound.h"

#include <algorithm>
#include <cmath>

namespace kinora {
namespace {

constexpr int32_t kUsualRate = 48000;
constexpr double kMostFrames = 1e9, kMostSamples = 1e15;  // bound the values of requests that are rejected later

double Within(double value, double most) { return value > 0 ? std::min(value, most) : 0; }  // NaN: 0

}  // namespace

SoundSpan HeardSpan(const AudioGuide& guide, int64_t num_frames, double frame_rate) {
  const int64_t rate = guide.audio != nullptr ? guide.audio->sample_rate : kUsualRate;
  const auto samples = [rate](double seconds) {
    return static_cast<int64_t>(std::nearbyint(Within(seconds * static_cast<double>(rate), kMostSamples)));
  };
  return {.begin = samples(guide.start_seconds),
          .samples = samples(static_cast<double>(num_frames) / frame_rate),
          .sample_rate = rate};
}

int64_t FramesHeard(const AudioGuide& guide, double frame_rate, int64_t frame_multiple) {
  const int64_t multiple = std::max<int64_t>(1, frame_multiple);
  if (guide.audio->sample_rate <= 0 || !(frame_rate > 0)) return 0;
  const auto lasts = [&](int64_t frames) {
    const SoundSpan span = HeardSpan(guide, frames, frame_rate);
    return span.begin + span.samples <= guide.audio->samples;
  };
  const double rate = guide.audio->sample_rate;
  const double seconds = static_cast<double>(guide.audio->samples) / rate - guide.start_seconds;
  int64_t most = static_cast<int64_t>(Within(seconds * frame_rate, kMostFrames)) / multiple * multiple + 1;
  if (lasts(most + multiple)) return most + multiple;  // rounding to whole samples can admit these frames
  if (!lasts(most)) most -= multiple;
  return std::max<int64_t>(0, most);
}

}  // namespace kinora

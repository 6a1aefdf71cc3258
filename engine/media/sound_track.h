// Encodes a waveform as AAC or Opus packets.
#ifndef KINORA_ENGINE_MEDIA_SOUND_TRACK_H_
#define KINORA_ENGINE_MEDIA_SOUND_TRACK_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/media/av.h"
#include "engine/media/picture_track.h"

namespace kinora {

struct SoundTrackOptions {
  const char* encoder = "aac";  // or "libopus"
  int sample_rate = 0;          // Hz of the waveform; resampled if the encoder does not support it
  int channels = 0;             // 1..8
  bool global_header = false;
};

class SoundTrack {
 public:
  static absl::StatusOr<std::unique_ptr<SoundTrack>> Create(const SoundTrackOptions& options);

  const AVCodecContext& codec() const { return *codec_; }
  // Encodes the whole track; may be called once. waveform: [channels, samples] float32, clamped to -1..1. Fails with
  // InvalidArgument if a value is not finite. The packets' durations sum to the samples plus the encoder's initial
  // padding, so that the container can trim both ends.
  absl::Status EncodeAll(const float* waveform, int64_t samples, PacketSink sink);

 private:
  SoundTrack() = default;
  absl::Status Drain(PacketSink sink);

  int source_rate_ = 0;
  AvPtr<AVCodecContext> codec_;
  AvPtr<AVFrame> frame_;
  AvPtr<AVPacket> packet_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_SOUND_TRACK_H_

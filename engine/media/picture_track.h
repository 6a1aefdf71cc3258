// Encodes RGB frames as H.264 or VP9 packets: yuv420p, limited-range BT.709, with matching tags.
#ifndef KINORA_ENGINE_MEDIA_PICTURE_TRACK_H_
#define KINORA_ENGINE_MEDIA_PICTURE_TRACK_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/media/av.h"

namespace kinora {

using PacketSink = absl::FunctionRef<absl::Status(AVPacket&)>;

struct PictureTrackOptions {
  const char* encoder = "libx264";  // or "libvpx-vp9"
  int64_t width = 0, height = 0;    // even
  double frame_rate = 0;
  int crf = 19;
  bool global_header = false;  // the container stores the parameter sets
};

class PictureTrack {
 public:
  // Fails with InvalidArgument for odd or non-positive sizes or an invalid rate, and with FailedPrecondition if
  // libavcodec does not have the encoder.
  static absl::StatusOr<std::unique_ptr<PictureTrack>> Create(const PictureTrackOptions& options);

  const AVCodecContext& codec() const { return *codec_; }
  // rgb: [height, width, 3], the frame with this index. Sends finished packets, also of earlier frames, to `sink` in
  // decoding order.
  absl::Status Encode(int64_t index, const uint8_t* rgb, PacketSink sink);
  absl::Status Flush(PacketSink sink);

 private:
  PictureTrack() = default;
  absl::Status Drain(PacketSink sink);

  AvPtr<AVCodecContext> codec_;
  AvPtr<SwsContext> scaler_;
  AvPtr<AVFrame> frame_;
  AvPtr<AVPacket> packet_;
};

// Returns the intended rational: an integer, a multiple of 1000/1001 such as 30000/1001, or otherwise the rate rounded
// to 1e-6.
AVRational FrameRate(double frames_per_second);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_PICTURE_TRACK_H_

// RGB frames -> H.264 or VP9 packets: yuv420p, limited-range BT.709, tagged as such.
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
  bool global_header = false;  // the container keeps the parameter sets
};

class PictureTrack {
 public:
  // InvalidArgument for odd or non-positive sizes or a bad rate; FailedPrecondition if libavcodec lacks the encoder.
  static absl::StatusOr<std::unique_ptr<PictureTrack>> Create(const PictureTrackOptions& options);

  const AVCodecContext& codec() const { return *codec_; }
  // rgb: [height, width, 3] of the frame with this index. Packets come out later, in decoding order.
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

// The rational that is meant: 24, 25, 30000/1001, …; otherwise the nearest with a denominator of at most 1001.
AVRational FrameRate(double frames_per_second);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_PICTURE_TRACK_H_

// The thumbnail of a clip (Output.thumbnail): its middle frame as a small JPEG.
#ifndef KINORA_SERVER_WORKER_THUMBNAIL_H_
#define KINORA_SERVER_WORKER_THUMBNAIL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/media/jpeg.h"
#include "engine/pipeline/clip_sink.h"

namespace kinora {

// Scales the picture so that its longer side has `longest` pixels; a smaller picture is returned as it is. Averages the
// pixels that become one.
RgbPicture Shrink(RgbPicture picture, int64_t longest);

// Passes a clip on to another sink, and makes its thumbnail.
class ThumbnailSink : public ClipSink {
 public:
  explicit ThumbnailSink(ClipSink& clip) : clip_(clip) {}  // not owned

  absl::Status Begin(const ClipInfo& info) override;
  absl::Status Frames(int64_t first, const Tensor& rgb8) override;
  absl::Status Audio(const Tensor& waveform) override { return clip_.Audio(waveform); }
  absl::Status Failure() const override { return clip_.Failure(); }
  absl::Status End() override;  // Internal: the middle frame is missing

  // The JPEG of frame num_frames / 2, complete after End. Its longer side has at most 256 pixels.
  const std::string& jpeg() const { return jpeg_; }

 private:
  ClipSink& clip_;
  ClipInfo info_;
  std::string jpeg_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_THUMBNAIL_H_

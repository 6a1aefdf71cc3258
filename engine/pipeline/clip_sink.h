// Destination of a finished clip: a file (MovieSink, PngSink, …), a dump for debugging, or several at once.
// The pipeline calls one sink on rank 0 only, from one thread, in this order:
//   Begin, then Frames in ascending order without gaps and Audio (each as soon as it is ready, in any relative order),
//   End.
// A call may block, which slows the decoder down. The first error ends the request: End is not called, and the sink's
// destructor removes partial files. Failure may be called at any time after Begin. Every Tensor is contiguous, in host
// memory, and valid only during the call.
#ifndef KINORA_ENGINE_PIPELINE_CLIP_SINK_H_
#define KINORA_ENGINE_PIPELINE_CLIP_SINK_H_

#include <cstdint>

#include "absl/status/status.h"

namespace kinora {

class Tensor;

struct ClipInfo {
  int64_t width = 0, height = 0;  // pixels; 0: the clip has no picture (text-to-audio) and Frames is never called
  int64_t num_frames = 0;
  double frame_rate = 0;          // frames per second
  int32_t audio_sample_rate = 0;  // Hz
  int32_t audio_channels = 0;     // 0: the clip has no sound and Audio is never called
  int64_t audio_samples = 0;      // per channel
};

class ClipSink {
 public:
  virtual ~ClipSink() = default;

  virtual absl::Status Begin(const ClipInfo& info) = 0;
  // rgb8: uint8 [n, height, width, 3], sRGB. first: index of its first frame in the clip.
  virtual absl::Status Frames(int64_t first, const Tensor& rgb8) = 0;
  // waveform: float32 [channels, samples], -1..1; the whole clip in one call.
  virtual absl::Status Audio(const Tensor& waveform) = 0;
  // Returns the first error of work that went on after a call returned. The pipeline asks after every tile, so that a
  // failed encoder ends the request before the next frames are ready.
  virtual absl::Status Failure() const { return absl::OkStatus(); }
  // The last call. Returns OK if the clip is complete and its file closed.
  virtual absl::Status End() = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_CLIP_SINK_H_

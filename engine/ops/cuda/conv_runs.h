// How a convolution is divided into runs of frames, each of which is one call of cuDNN.
#ifndef KINORA_ENGINE_OPS_CUDA_CONV_RUNS_H_
#define KINORA_ENGINE_OPS_CUDA_CONV_RUNS_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "engine/ops/pixel_params.h"

namespace kinora {

// The most elements of an operand, gaps between its positions included. cuDNN also accepts larger tensors, but its
// kernels index many of them with 32 bits.
inline constexpr int64_t kMostConvElements = (int64_t{1} << 31) - 1;

// Frames [begin, end) of the result, computed from frames [from, from + frames) of x. If they are copied with their
// padding, these may begin before x and end after it. Otherwise they are read from x, and cuDNN adds `before` and
// `after` frames of zeros.
struct FrameRun {
  int64_t begin, end;
  int64_t from, frames;
  bool copied = false;
  int before = 0, after = 0;
};
using FrameRuns = absl::InlinedVector<FrameRun, 8>;

// Which frames are copied with their padding, because cuDNN pads with zeros only.
enum class CopiedFrames : uint8_t { kNone, kAtTheEnds, kAll };

// The most frames in a run.
struct FrameLimits {
  int64_t x = 0, out = 0;  // so that neither has more than kMostConvElements
  int64_t copied = 0;      // of x, that fit the scratch memory
};

// Divides `outputs` frames, computed from `frames` frames of x, into as few runs as the limits allow, of about equal
// size. Returns no runs if not even one frame of the result is within the limits.
FrameRuns RunsOf(const ConvAxis& time, int64_t frames, int64_t outputs, CopiedFrames copied, const FrameLimits& limits);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CONV_RUNS_H_

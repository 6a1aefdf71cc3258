// What the tiles of a decode add up to, and the frames that leave: rank 0's side of the video decoder's stage.
//
// Sums are float32 and lie on the device, of the frames of one temporal group alone: a ring, in which those that the
// next group goes on with stay where they are. Whole frames become bytes there too; only bytes come to the host.
#ifndef KINORA_ENGINE_PIPELINE_FRAME_BLENDER_H_
#define KINORA_ENGINE_PIPELINE_FRAME_BLENDER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/tiling.h"

namespace kinora {

// A run of frames in host memory, valid during the call.
struct DecodedFrames {
  int64_t first = 0;  // index of the first frame in the clip
  Tensor rgb;         // [n, height, width, 3] f32 in 0..1: clamp((x + 1) / 2); undefined unless it was asked for
  Tensor rgb8;  // the same as u8: floor(255 · rgb), as Lightricks' converters do (ltx_core/color/yuv.py: they do not
                // round)
};

class FrameBlender {
 public:
  // n frames, n <= kFramesPerCall.
  using Emit = absl::FunctionRef<absl::Status(const DecodedFrames& frames)>;
  static constexpr int64_t kFramesPerCall = 8;

  struct Options {
    int64_t colours = 3;
    // Frames become bytes on their way to the host as soon as their group is enqueued, so that the next one may follow
    // at once: host memory holds those of as many groups as are enqueued and not emitted. Else at EmitGroup, a few at a
    // time.
    bool ahead = false;
    int groups = 1;       // that host memory apart has room for
    bool floats = false;  // DecodedFrames::rgb too; not with `ahead`
  };
  // exec, plan and the scopes, of exec.arena and exec.host, outlive it.
  FrameBlender(Exec& exec, const TilePlan& plan, const Options& options, ArenaScope& device, ArenaScope& host);

  // Weights of a tile of these axes in `scope`'s memory.
  PixelWeights UploadWeights(absl::Span<const float> frames, absl::Span<const float> rows,
                             absl::Span<const float> columns, ArenaScope& scope) const;

  // All four enqueue, for t = 0, 1, … in order.
  //
  // Before the first tile of group t.
  void Begin(size_t t);
  // pixels: [n, height, width, colours] f32 on the device, frames of the clip from `first` on, of a tile at (row,
  // column); weights: its own, of these frames.
  void Add(const Tensor& pixels, const TileBlend& blend, int64_t first);
  // After the last tile of group t.
  void Finish(size_t t);
  // When the work of Finish(t) is done: emits the frames that no later group reaches. Internal, naming the frame, if a
  // pixel is not a number; what emit answers unless OK. On a dry backend nothing is emitted.
  absl::Status EmitGroup(size_t t, Emit emit);

 private:
  void FinishFrames(int64_t first, int64_t count, const Tensor& to);
  // The host's memory for group t.
  Tensor FramesOfGroup(size_t t) const;
  Tensor BadOfGroup(size_t t) const;

  Exec& exec_;
  const TilePlan& plan_;
  const Options options_;
  Tensor sums_;       // [longest group, H, W, colours] f32; frame f of the clip is f mod its extent
  Tensor rgb8_;       // [kFramesPerCall, H, W, colours]
  Tensor first_bad_;  // [1] i32
  Tensor frames_;     // [groups · most frames that leave at once, H, W, colours] u8: the host's
  Tensor known_bad_;  // [groups] i32: first_bad_, the host's
  std::vector<float> floats_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_FRAME_BLENDER_H_

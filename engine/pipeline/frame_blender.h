// Adds up decoded tiles and emits finished frames: rank 0's part of the video decoder's stage.
//
// Sums are float32 in device memory, for the frames of one temporal group only. They form a ring, so frames that
// overlap the next group stay in place. The device converts finished frames to bytes and copies only those to the host.
#ifndef KINORA_ENGINE_PIPELINE_FRAME_BLENDER_H_
#define KINORA_ENGINE_PIPELINE_FRAME_BLENDER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/tiling.h"

namespace kinora {

// Consecutive frames in host memory, valid during the call.
struct DecodedFrames {
  int64_t first = 0;  // index of the first frame in the clip
  Tensor rgb;         // [n, height, width, 3] f32 in 0..1: clamp((x + 1) / 2); undefined unless Options::floats
  Tensor rgb8;  // the same as u8: floor(255 · rgb), truncated as in Lightricks' converters (ltx_core/color/yuv.py)
};

class FrameBlender {
 public:
  using Emit = absl::FunctionRef<absl::Status(const DecodedFrames& frames)>;
  static constexpr int64_t kFramesPerCall = 8;  // at most, in one call of Emit

  struct Options {
    int64_t colours = 3;
    // True: Finish enqueues the conversion of frames to bytes and their copies to the host, so the next group can be
    // enqueued at once. False: EmitGroup does so, kFramesPerCall frames at a time.
    bool ahead = false;
    int groups = 1;       // with `ahead`, host memory holds the frames of so many enqueued groups
    bool floats = false;  // provide DecodedFrames::rgb; not with `ahead`
  };
  // exec, plan and the scopes (of exec.arena and exec.host) must outlive the object.
  FrameBlender(Exec& exec, const TilePlan& plan, const Options& options, ArenaScope& device, ArenaScope& host);

  // Copies the weights of a tile, given per axis, to `scope`'s memory.
  PixelWeights UploadWeights(absl::Span<const float> frames, absl::Span<const float> rows,
                             absl::Span<const float> columns, ArenaScope& scope) const;

  // For each group t in order: call Begin, Add for each tile, Finish, then EmitGroup. The first three only enqueue.
  //
  // Call before the first tile of group t.
  void Begin(size_t t);
  // Adds a tile. pixels: [n, height, width, colours] f32 on the device, the clip's frames from `first` on. blend: the
  // tile's position and its weights for these frames.
  void Add(const Tensor& pixels, const TileBlend& blend, int64_t first);
  // Call after the last tile of group t.
  void Finish(size_t t);
  // Emits the frames that no later group changes. With Options::ahead, call when the work of Finish(t) is done. Fails
  // with Internal, naming the frame, if a pixel is not a number, or with emit's status. A dry backend emits nothing.
  absl::Status EmitGroup(size_t t, Emit emit);

 private:
  void FinishFrames(int64_t first, int64_t count, const Tensor& to);
  // Host memory for group t.
  Tensor FramesOfGroup(size_t t) const;
  Tensor BadOfGroup(size_t t) const;

  Exec& exec_;
  const TilePlan& plan_;
  const Options options_;
  Tensor sums_;       // [frames of the longest group, H, W, colours] f32; frame f of the clip is at f mod that number
  Tensor rgb8_;       // [kFramesPerCall, H, W, colours] u8
  Tensor first_bad_;  // [1] i32: first frame with a pixel that is not a number
  Tensor frames_;     // [groups · most frames of an EmitGroup, H, W, colours] u8, in host memory
  Tensor known_bad_;  // [groups] i32: copies of first_bad_ in host memory
  std::vector<float> floats_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_FRAME_BLENDER_H_

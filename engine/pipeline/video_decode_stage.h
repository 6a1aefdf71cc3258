// From the finished latent to frames: the decoder over the tiles of a clip, blended, in frame order, as soon as they
// are final.
//
// A temporal group is all tiles of one span of latent frames. Once a group is added up, the frames before the next
// group's start are final and leave; what overlaps stays. So memory is that of one group and one tile, however long the
// clip is.
#ifndef KINORA_ENGINE_PIPELINE_VIDEO_DECODE_STAGE_H_
#define KINORA_ENGINE_PIPELINE_VIDEO_DECODE_STAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/video_decoder.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/frame_blender.h"
#include "engine/pipeline/tiling.h"

namespace kinora {

class VideoDecodeStage {
 public:
  static constexpr int64_t kFramesPerCall = FrameBlender::kFramesPerCall;
  // Who gets what a run makes, on rank 0; what a call returns, unless OK, ends the run.
  struct Follower {
    FrameBlender::Emit emit;  // every frame of the clip, once, in order
    // Before the first tile, and when a round of them is done (one for each rank), in the end with done == total.
    absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress;
    bool floats = false;  // DecodedFrames::rgb too; takes longer
  };

  explicit VideoDecodeStage(const VideoDecoder& decoder) : decoder_(decoder) {}  // which must outlive the stage

  // latent: [F', H', W', C], as in Run. tiling absent: Tiling::For the clip's grid. InvalidArgument naming the field: a
  // size the decoder cannot pad, tiling options that do not fit its grid.
  absl::StatusOr<TilePlan> Plan(const Shape& latent, std::optional<Tiling> tiling = std::nullopt) const;

  // latent: [F', H', W', C] f32 in the transformer's normalised space, of the grid that `plan` was made for. Internal,
  // naming the frame, if a pixel is not a number. Every rank of exec.mesh.world() calls it with the same latent. When
  // the follower ends the run, the other ranks return Cancelled at the same tile, and the group stays usable. Where
  // device memory is apart the device is a round ahead of the follower: it decodes while the host takes frames.
  absl::Status Run(Exec& exec, const TilePlan& plan, const Tensor& latent, const Follower& follower) const;

 private:
  struct Tile {
    const AxisTile *time, *height, *width;
    Shape latent_shape;  // [frames, height, width, C]
  };

  std::vector<Tile> TilesOf(const TilePlan& plan, size_t t) const;
  // tiles: those of one round, at most one for each rank. blender: null on all ranks but the first.
  void DecodeRound(Exec& exec, const TilePlan& plan, const Tensor& latent, absl::Span<const Tile> tiles,
                   FrameBlender* blender) const;
  void AddRound(Exec& exec, const Tensor& decoded, absl::Span<const Tile> tiles, FrameBlender* blender) const;

  const VideoDecoder& decoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VIDEO_DECODE_STAGE_H_

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
#include "engine/pipeline/tiling.h"

namespace kinora {

// A run of frames in host memory, valid during the call.
struct DecodedFrames {
  int64_t first = 0;  // index of the first frame in the clip
  Tensor rgb;         // [n, height, width, 3] f32 in 0..1: clamp((x + 1) / 2)
  Tensor rgb8;  // the same as u8: floor(255 · rgb), as Lightricks' converters do (ltx_core/color/yuv.py: they do not
                // round)
};

class VideoDecodeStage {
 public:
  // n frames, n <= kFramesPerCall; a non-OK status ends the run.
  using Emit = absl::FunctionRef<absl::Status(const DecodedFrames& frames)>;
  // Called before each tile (or round) and at the end (done == total); a non-OK status ends the run.
  using Progress = absl::FunctionRef<absl::Status(int64_t done, int64_t total)>;
  static constexpr int64_t kFramesPerCall = 8;

  explicit VideoDecodeStage(const VideoDecoder& decoder) : decoder_(decoder) {}  // which must outlive the stage

  // latent: [1, C, F', H', W'], as in Run. tiling absent: Tiling::For the clip's grid. InvalidArgument naming the
  // field: a size the decoder cannot pad, tiling options that do not fit its grid.
  absl::StatusOr<TilePlan> Plan(const Shape& latent, std::optional<Tiling> tiling = std::nullopt) const;

  // latent: [1, C, F', H', W'] f32 in the transformer's normalised space, in host memory, of the grid that `plan` was
  // made for. Every frame of the clip is emitted once, in order. On a dry backend nothing is emitted. Internal, naming
  // the frame, if a pixel is not a number. Every rank of exec.mesh.world() calls it with the same latent. emit and
  // progress are called on rank 0 only; when one of them ends the run, the other ranks return Cancelled at the same
  // tile, and the group stays usable.
  absl::Status Run(Exec& exec, const TilePlan& plan, const Tensor& latent, Emit emit, Progress progress) const;

 private:
  struct Tile {
    const AxisTile *time, *height, *width;
    Shape latent_shape;  // [frames, height, width, C]
  };
  struct State;

  std::vector<Tile> TilesOf(const TilePlan& plan, size_t t) const;
  // tiles: those of one round, at most one for each rank.
  absl::Status DecodeRound(Exec& exec, const Tensor& latent, absl::Span<const Tile> tiles, State& state) const;
  absl::Status AddRound(Exec& exec, const Tensor& decoded, absl::Span<const Tile> tiles, const Tensor& group) const;
  absl::Status AddTile(Exec& exec, const Tensor& pixels, const Tile& tile, int64_t begin, const Tensor& group) const;

  const VideoDecoder& decoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VIDEO_DECODE_STAGE_H_

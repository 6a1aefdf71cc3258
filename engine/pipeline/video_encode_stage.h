// From frames to the transformer's latent: the encoder over the tiles of a clip, blended in the plan's order.
#ifndef KINORA_ENGINE_PIPELINE_VIDEO_ENCODE_STAGE_H_
#define KINORA_ENGINE_PIPELINE_VIDEO_ENCODE_STAGE_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/video_encoder.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/tiling.h"
#include "engine/request/cover_and_crop.h"

namespace kinora {

class VideoEncodeStage {
 public:
  explicit VideoEncodeStage(const VideoEncoder& encoder) : encoder_(encoder) {}  // which must outlive the stage

  // pixels: [frames, height, width, channels]. tiling absent: Tiling::For the clip's grid. InvalidArgument naming the
  // field: a clip that does not fit the encoder's grid, tiling options that do not fit.
  absl::StatusOr<TilePlan> Plan(const Shape& pixels, std::optional<Tiling> tiling = std::nullopt) const;

  // Writes a part of a frame, [height, width, channels] f32 in [−1, 1].
  using Pixels = absl::FunctionRef<void(int64_t frame, const PixelRegion& part, float* out)>;
  // pixels: of the grid that `plan` was made for; not asked in a dry run   latent: the encoder's OutputShape, f32,
  // normalised. A rank that wants the latent encodes all tiles: no other takes part. Temporaries come
  // from exec.arena: ArenaBytes.
  // on_tile is called after each tile; its failure ends the run and is returned.
  absl::Status Run(
      Exec& exec, const TilePlan& plan, Pixels pixels, Tensor latent,
      absl::FunctionRef<absl::Status()> on_tile = [] { return absl::OkStatus(); }) const;
  // Measured by a dry run.
  int64_t ArenaBytes(DType dtype, const TilePlan& plan) const;

 private:
  struct Tile {
    const AxisTile *time, *height, *width;
  };
  Tensor ReadPixels(Exec& exec, const Tile& tile, Pixels pixels, ArenaScope& scope) const;
  Shape PixelsOf(const TilePlan& plan) const;
  void AddTile(Exec& exec, const TilePlan& plan, const Tile& tile, const Tensor& encoded, const Tensor& latent) const;

  const VideoEncoder& encoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VIDEO_ENCODE_STAGE_H_

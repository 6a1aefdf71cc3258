// From frames to the transformer's latent: the encoder over the tiles of clips, shared out among the ranks and blended
// in the plan's order, so that no bit depends on how many there are.
#ifndef KINORA_ENGINE_PIPELINE_VIDEO_ENCODE_STAGE_H_
#define KINORA_ENGINE_PIPELINE_VIDEO_ENCODE_STAGE_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
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
  using Pixels = std::function<void(int64_t frame, const PixelRegion& part, float* out)>;
  struct Clip {
    const TilePlan* plan;
    Pixels pixels;  // of the grid that `plan` was made for; asked on rank 0 alone, and not in a dry run
    Tensor latent;  // the encoder's OutputShape, f32, normalised; the same on every rank in the end
  };
  // Every rank of exec.mesh.world() calls it with the same plans. The tiles of all clips, one after another, go to the
  // ranks in turn: rank 0 sends each its pixels and blends what comes back. Temporaries come from exec.arena:
  // ArenaBytes.
  // on_round is called on rank 0 when a round of tiles is done, at most one for each rank; `done` of all tiles. Its
  // failure ends the run: the other ranks return Cancelled, and the group stays usable.
  using OnRound = absl::FunctionRef<absl::Status(int64_t done)>;
  absl::Status Run(
      Exec& exec, absl::Span<const Clip> clips, OnRound on_round = [](int64_t) { return absl::OkStatus(); }) const;
  // Of one clip on one rank; measured by a dry run.
  int64_t ArenaBytes(DType dtype, const TilePlan& plan) const;

 private:
  struct Tile {
    const Clip* clip;
    const AxisTile *time, *height, *width;
    Shape pixels, latent;
  };
  std::vector<Tile> TilesOf(absl::Span<const Clip> clips) const;
  Shape PixelsOf(const TilePlan& plan) const;
  // tiles: those of one round, at most one for each rank.
  void EncodeRound(Exec& exec, absl::Span<const Tile> tiles) const;
  // This rank's tile.
  Tensor SharePixels(Exec& exec, absl::Span<const Tile> tiles, ArenaScope& scope) const;
  void ReadPixels(Exec& exec, const Tile& tile, const Tensor& to) const;
  void AddTile(Exec& exec, const Tile& tile, const Tensor& encoded) const;

  const VideoEncoder& encoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VIDEO_ENCODE_STAGE_H_

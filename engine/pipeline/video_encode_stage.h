// Encodes clips into the transformer's latents. The ranks share the tiles of all clips; tiles are blended in the plan's
// order, so no bit depends on the number of ranks.
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
  // encoder must outlive the stage.
  explicit VideoEncodeStage(const VideoEncoder& encoder) : encoder_(encoder) {}

  // pixels: [frames, height, width, channels]. tiling: default Tiling::For(the clip's grid). Fails with
  // InvalidArgument, naming the field, if the clip or `tiling` does not fit the encoder's grid.
  absl::StatusOr<TilePlan> Plan(const Shape& pixels, std::optional<Tiling> tiling = std::nullopt) const;

  // Writes a part of a frame, [height, width, channels] f32 in [−1, 1].
  using Pixels = std::function<void(int64_t frame, const PixelRegion& part, float* out)>;
  struct Clip {
    const TilePlan* plan;
    Pixels pixels;  // of the grid for which `plan` was made; called on rank 0 only, and not in a dry run
    Tensor latent;  // output: the encoder's OutputShape, f32, normalised; the same on every rank
  };
  // Every rank of exec.mesh.world() must call it with the same plans. Tiles of all clips go to the ranks in turn: rank
  // 0 sends each rank its pixels and blends the encoded tiles. Temporaries come from exec.arena. on_round is called on
  // rank 0 after each round of tiles (at most one per rank), with the number of tiles done. If it fails, the run ends:
  // the other ranks return Cancelled, and the group stays usable.
  using OnRound = absl::FunctionRef<absl::Status(int64_t done)>;
  absl::Status Run(
      Exec& exec, absl::Span<const Clip> clips, OnRound on_round = [](int64_t) { return absl::OkStatus(); }) const;

 private:
  struct Tile {
    const Clip* clip;
    const AxisTile *time, *height, *width;
    Shape pixels, latent;
  };
  std::vector<Tile> TilesOf(absl::Span<const Clip> clips) const;
  Shape PixelsOf(const TilePlan& plan) const;
  // tiles: those of one round, at most one per rank.
  void EncodeRound(Exec& exec, absl::Span<const Tile> tiles) const;
  // Distributes the pixels of a round and returns those of this rank's tile, in `scope`'s memory.
  Tensor SharePixels(Exec& exec, absl::Span<const Tile> tiles, ArenaScope& scope) const;
  void ReadPixels(Exec& exec, const Tile& tile, const Tensor& to) const;
  void AddTile(Exec& exec, const Tile& tile, const Tensor& encoded) const;

  const VideoEncoder& encoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VIDEO_ENCODE_STAGE_H_

// Decodes a finished video latent into frames: plans the tiles of a clip and decodes one of them. The decoders of a
// generation read latents of the same space; a model's file says which one it has.
#ifndef KINORA_ENGINE_PIPELINE_FRAME_DECODER_H_
#define KINORA_ENGINE_PIPELINE_FRAME_DECODER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/config/decoder_config.h"
#include "engine/diffusion/latents.h"
#include "engine/model/host_noise.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/tiling.h"

namespace kinora {

// One tile of a plan.
struct PlannedTile {
  const AxisTile *time, *height, *width;

  // [frames, height, width, colours]
  Shape OutputShape(int64_t colours) const {
    return {time->out_end - time->out_begin, height->out_end - height->out_begin, width->out_end - width->out_begin,
            colours};
  }
};

class FrameDecoder {
 public:
  virtual ~FrameDecoder() = default;

  virtual const VideoDecoderConfig& config() const = 0;
  int64_t latent_channels() const { return config().latent_channels; }
  int64_t colours() const { return config().out_channels; }  // values per pixel
  // latent: [F', H', W', latent_channels()]
  LatentGrid GridOf(const Shape& latent) const {
    KINORA_CHECK(latent.rank() == 4 && latent[3] == latent_channels()) << latent.ToString();
    return {.frames = latent[0],
            .height = latent[1],
            .width = latent[2],
            .time_factor = config().time_factor(),
            .space_factor = config().space_factor()};
  }

  // Returns the tiles of a clip. They depend on its shape and `tiling` alone, so that its pixels depend neither on the
  // machine nor on how ranks share the work. tiling: absent for the decoder's default. Fails with InvalidArgument,
  // naming the field, if the decoder cannot pad the size or the tiling does not fit the grid.
  virtual absl::StatusOr<TilePlan> Plan(const Shape& latent, std::optional<Tiling> tiling) const = 0;

  // Called between parts of the work of a long call, so that a run can end early: an error ends it.
  using GoOn = absl::FunctionRef<absl::Status()>;

  // Returns what Decode reads of the whole clip: the latent itself, or something computed from it in exec.arena. Every
  // rank calls it once, before its first tile. latent: of the plan's grid, f32, in the transformer's normalised space.
  // Fails with go_on's error.
  virtual absl::StatusOr<Tensor> Features(Exec& exec, const TilePlan& plan, const Tensor& latent, GoOn go_on) const = 0;
  // Returns the shapes [colours, frames, height, width] of the noise that decoding starts from, in the order in which
  // it is drawn: none, one draw for the whole clip, or one for each tile of the plan.
  virtual std::vector<Shape> NoiseDraws(const TilePlan& plan) const = 0;

  // features: from Features   noise: the clip's or the tile's draw of NoiseDraws; empty if there is none, or if ops are
  // only counted. If it is pinned, it must stay until a call of go_on has waited for the device.   out:
  // tile.OutputShape(colours()) f32, nominally in [-1, 1]; overshoots are not clamped. exec.dtype: of the activations.
  // Temporaries come from exec.arena. Fails with go_on's error; `out` is then undefined.
  virtual absl::Status Decode(Exec& exec, const TilePlan& plan, const Tensor& features, const PlannedTile& tile,
                              const HostNoise& noise, GoOn go_on, Tensor out) const = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_FRAME_DECODER_H_

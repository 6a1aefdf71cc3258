// The diffusion video decoder of LTX-2.5 (ltx_core/model/video_vae/diffusion_video_decoder.py): stages of neighbourhood
// attention turn the latent into a context of a quarter of the picture's resolution, and a denoiser turns noise into
// pixels, given the context. Activations are [frames, height, width, channels].
//
//   z = latent · σ_c + μ_c, padded to SmallestLatent(), the last frame repeated ghost_frames() times more
//   x = conv_in(z); per stage: blocks, then depth_to_space(proj(x)); a stride of 2 in time drops frame 0
//   x_t ~ N(0, 1); per noise level t from 1 down:
//     x = conv_in_x_t(patchify(x_t)); the denoiser's blocks, given the last stage's result and t
//     prediction = unpatchify(conv_out(norm_out(x)))           the picture x0, or the velocity (x_t − x0) / t
//     x_t += (t_next − t) · velocity
//
// All stages but the last run on the whole clip (Features). The last one and the denoiser run on tiles of the last
// stage's grid (Decode), where positions begin at 0. The denoiser's context is computed frame by frame where a block
// reads it, because at full length it would be as large as x.
#ifndef KINORA_ENGINE_MODEL_DIFFUSION_VIDEO_DECODER_H_
#define KINORA_ENGINE_MODEL_DIFFUSION_VIDEO_DECODER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/config/decoder_config.h"
#include "engine/model/host_noise.h"
#include "engine/model/neighbourhood_block.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class DiffusionVideoDecoder {
 public:
  struct Options {
    DecoderBorder border = DecoderBorder::kShift;
    int64_t slab_elements = NeighbourhoodBlock::kSlabElements;
  };
  // Reads decoder.* and per_channel_statistics.{mean,std}-of-means under `weights` (component "vae"). config: with
  // `diffusion`. WeightLoader::Finish reports missing tensors.
  static absl::StatusOr<DiffusionVideoDecoder> Load(WeightLoader weights, const VideoDecoderConfig& config,
                                                    const Options& options);

  const VideoDecoderConfig& config() const { return config_; }

  // Cells of the last stage's grid, without the ghost frames: time, height, width.
  using Extents = DiffusionDecoderConfig::Extents;
  Extents CellsOf(const Shape& latent) const;
  // Cells by which the latent is padded in front: time, height, width, in latent cells.
  Extents PaddingOf(const Shape& latent) const;

  // Called between parts of the work, so that a run can end early: an error ends it.
  using GoOn = absl::FunctionRef<absl::Status()>;

  // latent: [frames, height, width, latent_channels] f32, normalised. Returns the last stage's input, with the ghost
  // frames, in exec.arena. Fails with go_on's error. Taps: "conv_in", "stage.i".
  absl::StatusOr<Tensor> Features(Exec& exec, const Tensor& latent, GoOn go_on) const;

  struct Tile {  // of the last stage's grid, without the ghost frames
    Extents begin{}, end{};
    bool last = false;  // ends with the clip: gets the ghost frames
    bool first() const { return begin[0] == 0; }
  };
  // [colours, frames, height, width] of the picture that the denoiser makes. It can be longer than what Decode returns,
  // so that the window fits.
  Shape CanvasOf(const Tile& tile) const;
  Shape OutputShape(const Tile& tile) const;  // [frames, height, width, colours]

  // features: from Features   noise: CanvasOf(tile); ignored if ops are only counted. If it is pinned, it must stay
  // until a call of go_on has waited for the device.
  // out: OutputShape(tile) f32, nominally in [-1, 1]; overshoots are not clamped. exec.dtype: of the activations.
  // Temporaries come from exec.arena. Fails with go_on's error; `out` is then undefined. Taps: "conv_in_x_t",
  // "modulation", "block.i".
  absl::Status Decode(Exec& exec, const Tensor& features, const Tile& tile, const HostNoise& noise, GoOn go_on,
                      Tensor out) const;

 private:
  struct Stage {
    std::vector<NeighbourhoodBlock> blocks;
    Weight upsample;
  };
  class Denoiser;
  class Noise;
  static absl::StatusOr<std::vector<NeighbourhoodBlock>> LoadBlocks(const WeightLoader& weights,
                                                                    const DiffusionDecoderConfig& config,
                                                                    const DiffusionDecoderConfig::Stage& stage,
                                                                    int64_t context_width);
  absl::Status LoadDenoiser(WeightLoader& weights);
  const DiffusionDecoderConfig& diffusion() const { return *config_.diffusion; }
  Shape Upsampled(size_t stage, const Shape& x, bool drop_first) const;
  // Frames [first, first + out.dim(0)) of depth_to_space(proj(x)), counted after the dropped one.
  void Upsample(Exec& exec, size_t stage, const Tensor& x, bool drop_first, int64_t first, Tensor out) const;
  absl::Status RunBlocks(Exec& exec, size_t stage, GoOn go_on, Tensor x) const;
  absl::StatusOr<Tensor> Context(Exec& exec, const Tensor& features, const Tile& tile, GoOn go_on) const;
  Tensor Padded(Exec& exec, const Tensor& latent) const;
  int64_t ContextFrames(const Tile& tile) const;

  VideoDecoderConfig config_;
  Options options_;
  Parameter mean_, std_;  // [latent_channels]
  Weight conv_in_, conv_in_x_t_, conv_out_;
  std::vector<Stage> stages_;
  Weight timestep_in_, timestep_hidden_, modulation_;
  std::vector<NeighbourhoodBlock> denoiser_;
  Parameter norm_out_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_DIFFUSION_VIDEO_DECODER_H_

// The diffusion decoder (diffusion_video_decoder.h) in tiles that follow from the clip's shape (diffusion_tiling.h).
#ifndef KINORA_ENGINE_PIPELINE_DIFFUSION_DECODER_H_
#define KINORA_ENGINE_PIPELINE_DIFFUSION_DECODER_H_

#include <memory>
#include <utility>
#include <vector>

#include "engine/model/diffusion_video_decoder.h"
#include "engine/pipeline/frame_decoder.h"

namespace kinora {

class DiffusionDecoder : public FrameDecoder {
 public:
  explicit DiffusionDecoder(std::shared_ptr<const DiffusionVideoDecoder> decoder) : decoder_(std::move(decoder)) {}

  const VideoDecoderConfig& config() const override { return decoder_->config(); }
  // Default: ChooseTiling. The cells of its tiles are those of the decoder's last stage.
  absl::StatusOr<TilePlan> Plan(const Shape& latent, std::optional<Tiling> tiling) const override;
  absl::StatusOr<Tensor> Features(Exec& exec, const TilePlan& plan, const Tensor& latent, GoOn go_on) const override;
  // A tile's own draw if the decoder takes one step that predicts the picture, otherwise one for the clip.
  std::vector<Shape> NoiseDraws(const TilePlan& plan) const override;
  absl::Status Decode(Exec& exec, const TilePlan& plan, const Tensor& features, const PlannedTile& tile,
                      const HostNoise& noise, GoOn go_on, Tensor out) const override;

 private:
  DiffusionVideoDecoder::Tile TileOf(const TilePlan& plan, const PlannedTile& tile) const;
  bool OneDraw() const;  // for the whole clip

  const std::shared_ptr<const DiffusionVideoDecoder> decoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DIFFUSION_DECODER_H_

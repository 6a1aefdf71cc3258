// The convolutional video decoder (video_decoder.h) in the tiles of Lightricks' pipelines (tiling.h).
#ifndef KINORA_ENGINE_PIPELINE_CONVOLUTION_DECODER_H_
#define KINORA_ENGINE_PIPELINE_CONVOLUTION_DECODER_H_

#include <memory>
#include <utility>
#include <vector>

#include "engine/model/video_decoder.h"
#include "engine/pipeline/frame_decoder.h"

namespace kinora {

class ConvolutionDecoder : public FrameDecoder {
 public:
  explicit ConvolutionDecoder(std::shared_ptr<const VideoDecoder> decoder) : decoder_(std::move(decoder)) {}

  const VideoDecoderConfig& config() const override { return decoder_->config(); }
  // Default: Tiling::For(the clip's grid).
  absl::StatusOr<TilePlan> Plan(const Shape& latent, std::optional<Tiling> tiling) const override;
  absl::StatusOr<Tensor> Features(Exec& exec, const TilePlan& plan, const Tensor& latent, GoOn go_on) const override;
  std::vector<Shape> NoiseDraws(const TilePlan&) const override { return {}; }
  absl::Status Decode(Exec& exec, const TilePlan& plan, const Tensor& features, const PlannedTile& tile,
                      const HostNoise& noise, GoOn go_on, Tensor out) const override;

 private:
  const std::shared_ptr<const VideoDecoder> decoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_CONVOLUTION_DECODER_H_

// Turns log-mel rows into a waveform: HiFi-GAN (LTX-2.0) or BigVGAN (2.3: anti-aliased activations), after
// ltx_core/model/audio_vae/vocoder.py, Vocoder. One-dimensional; activations are [time, channels].
//
//   h = conv_pre(x)
//   per stage:
//     h = upsample(bend(h))                            upsample: a transposed convolution
//     h = mean over the stage's blocks b of b(h)       b(x): per dilation x += conv2(bend(conv1_dilated(bend(x))))
//   y = final(conv_post(bend(h)))
//
// bend is a leaky ReLU, or SnakeBeta x + sin²(x·e^α)/(e^β + 1e-9) at twice the rate. With SnakeBeta, stages omit
// the bend before upsampling.
#ifndef KINORA_ENGINE_MODEL_VOCODER_GENERATOR_H_
#define KINORA_ENGINE_MODEL_VOCODER_GENERATOR_H_

#include <string_view>
#include <vector>

#include "engine/config/decoder_config.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class Generator {
 public:
  Generator() = default;
  // name: of the configuration, for messages ("vocoder"). Fails with InvalidArgument, naming the field, if values do
  // not fit together, or with Unimplemented if the activation is not supported.
  static absl::StatusOr<Generator> Load(WeightLoader weights, const GeneratorConfig& config, std::string_view name);

  int64_t factor() const { return factor_; }  // samples per row
  const GeneratorConfig& config() const { return config_; }

  // x: [rows, in_channels] f32   out: [factor·rows, out_channels] f32. exec.dtype is not read. Taps, [time, channels]:
  // "conv_pre", "ups.i", "resblocks.i".
  void Forward(Exec& exec, const Tensor& x, Tensor out) const;

 private:
  struct Snake {  // parameters of one activation; unused with leaky ReLU
    Parameter frequency, amplitude, up, down;
  };
  struct Pair {
    int kernel = 1, dilation = 1;
    Snake bend1, bend2;
    Weight conv1, conv2;
  };
  using Block = std::vector<Pair>;
  struct Stage {
    TransposedConv upsample;
    std::vector<Block> blocks;
  };

  static absl::StatusOr<Snake> LoadSnake(WeightLoader weights, int64_t channels);
  absl::StatusOr<Block> LoadBlock(WeightLoader weights, int64_t channels, int kernel,
                                  const std::vector<int64_t>& dilations) const;
  // Computes the convolution of bend(x). bent: memory for bend(x).
  void BendThenConv(Exec& exec, const Snake& snake, double slope, const Tensor& x, const Weight& conv,
                    const ConvAxis& axis, Accumulate accumulate, Tensor bent, Tensor out) const;
  void Upsample(Exec& exec, const TransposedConv& conv, const Tensor& x, Tensor out) const;
  void Limit(Exec& exec, const Tensor& out) const;  // final_activation, in place
  void RunBlock(Exec& exec, const Block& block, Tensor x, Tensor bent, Tensor hidden) const;

  GeneratorConfig config_;
  int64_t factor_ = 1;
  Weight conv_pre_, conv_post_;
  std::vector<Stage> stages_;
  Snake bend_post_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_VOCODER_GENERATOR_H_

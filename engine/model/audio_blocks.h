// What the audio VAE's encoder and decoder are made of (ltx_core/model/audio_vae/resnet.py, causal_conv_2d.py).
// Convolutions are over (time, mel), causal in time: a row depends on no later one. Activations are [1, time, mel,
// channels].
//
//   res(x) = x [or its 1×1 projection] + conv2(SiLU(norm(conv1(SiLU(norm(x))))))      norm(x) = x / sqrt(mean_c x² +
//   1e-6)
#ifndef KINORA_ENGINE_MODEL_AUDIO_BLOCKS_H_
#define KINORA_ENGINE_MODEL_AUDIO_BLOCKS_H_

#include <optional>
#include <string_view>

#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

inline constexpr float kAudioNormEps = 1e-6f;  // PixelNorm's, not in any configuration
inline constexpr int kAudioKernel = 3;
inline constexpr int kAudioMidResNets = 2;  // block_1 and block_2

// The tensors are called `name`.conv.weight [out, in, kernel, kernel] and .bias. kept: ConvSpec's.
absl::StatusOr<Weight> LoadAudioConv(WeightLoader& weights, std::string_view name, int64_t in, int64_t out,
                                     int kernel = kAudioKernel, int64_t kept = 0);
// Causal in time (the height), centred in mel (the width), zeros outside. skip: rows of output left out in front.
ConvOptions AudioConvOptions(int skip = 0);

// Three buffers that change places; each holds the largest activation.
struct AudioScratch {
  Tensor x{};  // the current activation
  Tensor normed{}, hidden{};
  Shape shape{};  // of x: [1, time, mel, channels]

  // elements: of each buffer.
  AudioScratch(ArenaScope& arena, DType dtype, int64_t elements, const Shape& first);
  static Tensor As(const Tensor& buffer, const Shape& shape) { return buffer.Rows(0, shape.elements()).Reshape(shape); }
  Tensor X() const { return As(x, shape); }
  Shape WithChannels(int64_t channels) const { return {1, shape[1], shape[2], channels}; }
};

class AudioResNet {
 public:
  AudioResNet() = default;
  static absl::StatusOr<AudioResNet> Load(WeightLoader weights, int64_t in, int64_t out);
  void Forward(Exec& exec, AudioScratch& s) const;

 private:
  Weight conv1_, conv2_;
  std::optional<Weight> shortcut_;  // where the width changes
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AUDIO_BLOCKS_H_

// Building blocks of the audio VAE's encoder and decoder (ltx_core/model/audio_vae/resnet.py, causal_conv_2d.py).
// Convolutions are over (time, mel) and causal in time: a row depends on no later row. Activations are [1, time, mel,
// channels].
//
//   res(x) = x [or its 1×1 projection] + conv2(SiLU(norm(conv1(SiLU(norm(x))))))
//   norm(x) = x / sqrt(mean_c x² + 1e-6)
#ifndef KINORA_ENGINE_MODEL_AUDIO_BLOCKS_H_
#define KINORA_ENGINE_MODEL_AUDIO_BLOCKS_H_

#include <optional>
#include <string_view>

#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

inline constexpr float kAudioNormEps = 1e-6f;  // PixelNorm's; no configuration has a key for it
inline constexpr int kAudioKernel = 3;
inline constexpr int kAudioMidResNets = 2;  // block_1 and block_2

// Reads `name`.conv.weight [out, in, kernel, kernel] and `name`.conv.bias. kept: ConvSpec::kept.
absl::StatusOr<Weight> LoadAudioConv(WeightLoader& weights, std::string_view name, int64_t in, int64_t out,
                                     int kernel = kAudioKernel, int64_t kept = 0);
// Causal in time (the height), centred in mel (the width), padded with zeros. skip: number of first output rows to
// drop.
ConvOptions AudioConvOptions(int skip = 0);

// Three interchangeable buffers, each large enough for the largest activation.
struct AudioScratch {
  Tensor x{};  // the current activation
  Tensor normed{}, hidden{};
  Shape shape{};  // of x: [1, time, mel, channels]

  // elements: of each buffer. first: initial shape.
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
  std::optional<Weight> shortcut_;  // if the width changes
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AUDIO_BLOCKS_H_

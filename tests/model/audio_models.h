// Configurations of the audio decoder and the vocoders, for the released models and the goldens, and models loaded from
// goldens.
#ifndef KINORA_TESTS_MODEL_AUDIO_MODELS_H_
#define KINORA_TESTS_MODEL_AUDIO_MODELS_H_

#include <string>

#include "engine/model/audio_decoder.h"
#include "engine/model/vocoder.h"
#include "tests/testing/model_rig.h"

namespace kinora {

inline GeneratorConfig SnakeGenerator(int64_t hidden, std::vector<int64_t> rates, std::vector<int64_t> kernels,
                                      GeneratorConfig::Final final_activation) {
  return {.activation = GeneratorConfig::Activation::kSnakeBeta,
          .final_activation = final_activation,
          .hidden_channels = hidden,
          .upsample_rates = std::move(rates),
          .upsample_kernels = std::move(kernels),
          .final_bias = false};
}

inline VocoderConfig ReleasedVocoder(const std::string& generation) {  // "2_0", "2_3"
  using Final = GeneratorConfig::Final;
  if (generation == "2_0") return {};
  return {.base = SnakeGenerator(1536, {5, 2, 2, 2, 2, 2}, {11, 4, 4, 4, 4, 4}, Final::kClamp),
          .extension = BandwidthExtensionConfig{.generator = SnakeGenerator(512, {6, 5, 2, 2, 2}, {12, 11, 4, 4, 4},
                                                                            Final::kNone)},
          .base_rate = 16000,
          .output_rate = 48000};
}

inline VocoderConfig GoldenVocoder(const std::string& generation) {
  using Final = GeneratorConfig::Final;
  if (generation == "2_0") {
    return {.base = {.hidden_channels = 32, .upsample_rates = {6, 5, 4, 2}, .upsample_kernels = {16, 15, 8, 4}}};
  }
  return {
      .base = SnakeGenerator(32, {5, 4, 4, 2}, {11, 8, 8, 4}, Final::kClamp),
      .extension = BandwidthExtensionConfig{.generator = SnakeGenerator(16, {6, 5, 4, 2}, {12, 11, 8, 4}, Final::kNone),
                                            .n_fft = 192},
      .base_rate = 16000,
      .output_rate = 48000};
}

inline AudioDecoderConfig GoldenAudioDecoder() { return {.channels = 8}; }

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

// A golden's weights, and a rig to run them.
struct GoldenRun {
  explicit GoldenRun(const std::string& name, DType dtype = DType::kF32, const TestedBackend& on = Cpu(),
                     Taps* taps = nullptr)
      : golden(name), rig(on, dtype, taps), loader(rig.Open({.paths = {golden.WriteCheckpoint()}})) {}

  AudioDecoder LoadDecoder() {
    return Finished(OrDie(AudioDecoder::Load(loader.Under("audio_vae"), GoldenAudioDecoder())));
  }
  Vocoder LoadVocoder(const VocoderConfig& config) {
    return Finished(OrDie(Vocoder::Load(loader.Under("vocoder"), config, {})));
  }

  Golden golden;
  ModelRig rig;
  WeightLoader loader;

 private:
  template <typename Model>
  Model Finished(Model model) {
    const absl::Status finished = loader.Finish();
    KINORA_CHECK(finished.ok()) << finished.ToString();
    return model;
  }
};

}  // namespace kinora

#endif  // KINORA_TESTS_MODEL_AUDIO_MODELS_H_

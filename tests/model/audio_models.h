// Configurations of the audio decoder and the vocoders, released and of the goldens, and one loaded from a golden's
// file.
#ifndef KINORA_TESTS_MODEL_AUDIO_MODELS_H_
#define KINORA_TESTS_MODEL_AUDIO_MODELS_H_

#include <cstring>
#include <memory>
#include <string>

#include "engine/model/audio_decoder.h"
#include "engine/model/vocoder.h"
#include "engine/ops/backend.h"
#include "tests/testing/golden.h"

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

// The weights of one golden on the CPU, and memory to run in.
class GoldenRun {
 public:
  explicit GoldenRun(const std::string& name, DType dtype = DType::kF32, int threads = 2)
      : golden(name), backend(OrDie(OpenBackend("cpu", {.threads = threads}))), dtype_(dtype) {
    ModelFiles files;
    files.paths = {golden.WriteCheckpoint()};
    loader_ = std::make_unique<WeightLoader>(
        OrDie(WeightLoader::Open(OrDie(Checkpoint::Open(files)), *mesh_, *backend, dtype)));
  }

  AudioDecoder LoadDecoder() {
    return Finished(OrDie(AudioDecoder::Load(loader_->Under("audio_vae"), GoldenAudioDecoder())));
  }
  Vocoder LoadVocoder(const VocoderConfig& config) {
    return Finished(OrDie(Vocoder::Load(loader_->Under("vocoder"), config, {})));
  }
  // Over 64 MiB that hold NaN. Valid until the next call.
  Exec MakeExec(Taps* taps = nullptr) {
    constexpr int64_t kBytes = int64_t{64} << 20;
    Buffer memory = OrDie(Buffer::Allocate(kBytes));
    std::memset(memory.data(), 0xff, kBytes);
    arena = std::make_unique<Arena>(std::move(memory));
    return {.backend = *backend, .arena = *arena, .host = *arena, .mesh = *mesh_, .dtype = dtype_, .taps = taps};
  }

  Golden golden;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Arena> arena;

 private:
  template <typename Model>
  Model Finished(Model model) {
    const absl::Status finished = loader_->Finish();
    KINORA_CHECK(finished.ok()) << finished.ToString();
    return model;
  }

  const DType dtype_;
  std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<WeightLoader> loader_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_MODEL_AUDIO_MODELS_H_

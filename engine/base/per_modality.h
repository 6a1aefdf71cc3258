// A value for video and one for audio, so that the same code handles both modalities.
#ifndef KINORA_ENGINE_BASE_PER_MODALITY_H_
#define KINORA_ENGINE_BASE_PER_MODALITY_H_

#include <cstdint>

namespace kinora {

// The modalities that a model is loaded with or a prompt is encoded for.
enum class Modalities : uint8_t { kBoth, kSound };

template <typename T>
struct PerModality {
  T video{}, audio{};

  // Returns {f(video), f(audio)}; calls f for video first.
  template <typename F>
  auto Map(F f) const -> PerModality<decltype(f(video))> {
    return {f(video), f(audio)};
  }
  friend bool operator==(const PerModality&, const PerModality&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_PER_MODALITY_H_

// One of something for the video and one for the audio stream, so that both go through the same code.
#ifndef KINORA_ENGINE_BASE_PER_MODALITY_H_
#define KINORA_ENGINE_BASE_PER_MODALITY_H_

#include <cstdint>

namespace kinora {

// Which streams a model is loaded with, or a prompt encoded for.
enum class Streams : uint8_t { kBoth, kSound };

template <typename T>
struct PerModality {
  T video{}, audio{};

  // f(the video's), then f(the audio's).
  template <typename F>
  auto Map(F f) const -> PerModality<decltype(f(video))> {
    return {f(video), f(audio)};
  }
  friend bool operator==(const PerModality&, const PerModality&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_PER_MODALITY_H_

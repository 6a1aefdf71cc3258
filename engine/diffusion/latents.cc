#include "engine/diffusion/latents.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace kinora {

LatentGrid GridOf(int64_t num_frames, int64_t height, int64_t width, const LatentScale& scale) {
  return {.frames = (num_frames - 1) / scale.time + 1,
          .height = height / scale.space,
          .width = width / scale.space,
          .time_factor = scale.time,
          .space_factor = scale.space};
}

int64_t AudioLatents(int64_t num_frames, double frame_rate, const LatentScale& scale) {
  return static_cast<int64_t>(
      std::nearbyint(static_cast<double>(num_frames) / frame_rate * scale.audio_latents_a_second()));
}

void Transpose(absl::Span<const float> from, int64_t rows, int64_t columns, absl::Span<float> to) {
  KINORA_CHECK(static_cast<int64_t>(from.size()) == rows * columns && from.size() == to.size())
      << rows << " x " << columns;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
}

void PackAudio(absl::Span<const float> from, int64_t channels, int64_t latents, int64_t bins, absl::Span<float> to) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < latents; ++t)
      std::copy_n(&from[(c * latents + t) * bins], bins, &to[(t * channels + c) * bins]);
  }
}

void UnpackAudio(absl::Span<const float> from, int64_t channels, int64_t latents, int64_t bins, absl::Span<float> to) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < latents; ++t)
      std::copy_n(&from[(t * channels + c) * bins], bins, &to[(c * latents + t) * bins]);
  }
}

// The first latent frame represents one pixel frame, each later one time_factor frames.
float VideoLatentBegins(const LatentGrid& grid, int64_t latent_frame, double frame_rate) {
  const int64_t frame = std::max<int64_t>(0, latent_frame * grid.time_factor + 1 - grid.time_factor);
  return static_cast<float>(frame) / static_cast<float>(frame_rate);
}

// Causal like video: the first latent represents one mel row.
float AudioLatentBegins(int64_t latent, const LatentScale& scale) {
  const int64_t row = std::max<int64_t>(0, latent * scale.audio_time + 1 - scale.audio_time);
  return static_cast<float>(row * scale.audio_hop) / static_cast<float>(scale.audio_rate);
}

std::vector<std::vector<float>> VideoPositions(const LatentGrid& grid, double frame_rate) {
  std::vector<std::vector<float>> positions(3);
  const auto seconds = [&](int64_t frame) { return VideoLatentBegins(grid, frame, frame_rate); };
  const auto middle = [](float begin, float end) { return (begin + end) / 2.0f; };
  for (int64_t f = 0; f < grid.frames; ++f) {
    for (int64_t h = 0; h < grid.height; ++h) {
      for (int64_t w = 0; w < grid.width; ++w) {
        positions[0].push_back(middle(seconds(f), seconds(f + 1)));
        positions[1].push_back(
            middle(static_cast<float>(h * grid.space_factor), static_cast<float>((h + 1) * grid.space_factor)));
        positions[2].push_back(
            middle(static_cast<float>(w * grid.space_factor), static_cast<float>((w + 1) * grid.space_factor)));
      }
    }
  }
  return positions;
}

std::vector<std::vector<float>> AudioPositions(int64_t latents, const LatentScale& scale) {
  std::vector<std::vector<float>> positions(1);
  const auto seconds = [&](int64_t latent) { return AudioLatentBegins(latent, scale); };
  for (int64_t i = 0; i < latents; ++i) positions[0].push_back((seconds(i) + seconds(i + 1)) / 2.0f);
  return positions;
}

}  // namespace kinora

// Shapes and token order of latents (docs/model.md "Shapes and token order", "Positions"): video [1, C, F', H', W'] ⇄
// [F'·H'·W', C]; audio [1, c, T', m] ⇄ [T', c·m].
#ifndef KINORA_ENGINE_DIFFUSION_LATENTS_H_
#define KINORA_ENGINE_DIFFUSION_LATENTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kinora {

// Size of a video latent in cells, each a token of the transformer, and of its clip in frames and pixels.
struct LatentGrid {
  int64_t frames = 0, height = 0, width = 0;
  int64_t time_factor = 8, space_factor = 32;

  int64_t tokens() const { return frames * height * width; }
  int64_t out_frames() const { return time_factor * (frames - 1) + 1; }
  int64_t out_height() const { return space_factor * height; }
  int64_t out_width() const { return space_factor * width; }
  bool operator==(const LatentGrid&) const = default;
};

// Compression of the autoencoders, from the model's configuration.
struct LatentScale {
  int64_t time = 8, space = 32;  // frames and pixels per video latent
  // samples per second, samples per mel row, mel rows per latent
  int64_t audio_rate = 16000, audio_hop = 160, audio_time = 4;
  double audio_latents_a_second() const {
    return static_cast<double>(audio_rate) / static_cast<double>(audio_hop) / static_cast<double>(audio_time);
  }
};

LatentGrid GridOf(int64_t num_frames, int64_t height, int64_t width, const LatentScale& scale);
// Returns the number of audio latents of a clip, rounded half to even.
int64_t AudioLatents(int64_t num_frames, double frame_rate, const LatentScale& scale);

// [rows, columns] -> [columns, rows].
void Transpose(absl::Span<const float> from, int64_t rows, int64_t columns, absl::Span<float> to);
// [channels, latents, bins] -> [latents, channels·bins] and back.
void PackAudio(absl::Span<const float> from, int64_t channels, int64_t latents, int64_t bins, absl::Span<float> to);
void UnpackAudio(absl::Span<const float> from, int64_t channels, int64_t latents, int64_t bins, absl::Span<float> to);

// Returns the time at which a latent begins, in seconds, in float32 like the reference. It ends where the next begins.
float VideoLatentBegins(const LatentGrid& grid, int64_t latent_frame, double frame_rate);
float AudioLatentBegins(int64_t latent, const LatentScale& scale);

// Returns the middle of each token's interval, in float32 like the reference: seconds, pixels down, pixels across.
// [3][tokens]
std::vector<std::vector<float>> VideoPositions(const LatentGrid& grid, double frame_rate);
// Likewise for audio: seconds. [1][latents]
std::vector<std::vector<float>> AudioPositions(int64_t latents, const LatentScale& scale);

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_LATENTS_H_

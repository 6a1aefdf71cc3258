#include "engine/pipeline/latent_preview.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/diffusion/noise.h"
#include "engine/parallel/dry_run.h"

namespace kinora {
namespace {

constexpr int64_t kFrames = 2, kSide = 8, kCells = kFrames * kSide * kSide;  // of each latent in the fit
constexpr int64_t kDraws = 8;    // latents: 1,024 cells for the 129 rows of a released model
constexpr int64_t kKnots = 5;    // random values along each side, with linear interpolation between them
constexpr double kSpread = 1.5;  // deviation of the knots, so that interpolated cells deviate by about 1
constexpr double kRidge = 1e-3;  // per cell: keeps channels that hardly affect the decoder near 0
constexpr uint64_t kSeed = 2026;

Shape LatentShape(const FrameDecoder& decoder) { return {kFrames, kSide, kSide, decoder.latent_channels()}; }

// A latent of the fit, decoded as one tile.
class WholeClip {
 public:
  explicit WholeClip(const FrameDecoder& decoder)
      : decoder_(decoder),
        plan_(decoder.Plan(LatentShape(decoder), Tiling{}).value()),
        tile_{.time = plan_.time.data(), .height = plan_.height.data(), .width = plan_.width.data()} {
    NoiseSource source(kSeed + 1);
    for (const Shape& draw : decoder.NoiseDraws(plan_)) {  // one at most
      noise_.resize(draw.elements());
      source.Fill(absl::MakeSpan(noise_));
    }
  }
  WholeClip(const WholeClip&) = delete;  // tile_ points into plan_
  Shape OutputShape() const { return tile_.OutputShape(decoder_.colours()); }
  absl::Status Decode(Exec& exec, const Tensor& latent, const Tensor& out) const {
    const ArenaScope scope(exec.arena);
    KINORA_ASSIGN_OR_RETURN(const Tensor features, decoder_.Features(exec, plan_, latent, &absl::OkStatus));
    return decoder_.Decode(exec, plan_, features, tile_, {.values = noise_}, &absl::OkStatus, out);
  }

 private:
  const FrameDecoder& decoder_;
  const TilePlan plan_;
  const PlannedTile tile_;
  std::vector<float> noise_;
};

// Returns [kCells, channels].
std::vector<float> SmoothLatent(NoiseSource& noise, int64_t channels) {
  constexpr int64_t kPerFrame = kKnots * kKnots;
  std::vector<float> knots(kFrames * kPerFrame * channels), latent(kCells * channels);
  noise.Fill(absl::MakeSpan(knots));
  for (int64_t i = 0; i < kCells; ++i) {
    const int64_t frame = i / (kSide * kSide);
    const double y = static_cast<double>(i / kSide % kSide) * (kKnots - 1) / (kSide - 1);
    const double x = static_cast<double>(i % kSide) * (kKnots - 1) / (kSide - 1);
    for (int64_t row = 0; row < kKnots; ++row) {
      for (int64_t column = 0; column < kKnots; ++column) {
        const double share = std::max(0.0, 1 - std::abs(y - static_cast<double>(row))) *
                             std::max(0.0, 1 - std::abs(x - static_cast<double>(column)));
        if (share == 0) continue;
        const float* const knot = knots.data() + (frame * kPerFrame + row * kKnots + column) * channels;
        for (int64_t c = 0; c < channels; ++c)
          latent[i * channels + c] += static_cast<float>(kSpread * share) * knot[c];
      }
    }
  }
  return latent;
}

// Mean colour of each cell. pixels: [frames, height, width, 3] -> [kCells, 3]
std::vector<double> CellColours(const std::vector<float>& pixels, const Shape& shape) {
  std::vector<double> sums(kCells * 3), counts(kCells);
  const int64_t per_frame = (shape[0] - 1) / (kFrames - 1), cell_rows = shape[1] / kSide,
                cell_columns = shape[2] / kSide;
  for (int64_t i = 0; i < shape.elements() / 3; ++i) {
    const int64_t frame = i / (shape[1] * shape[2]), row = i / shape[2] % shape[1], column = i % shape[2];
    const int64_t latent_frame = (frame + per_frame - 1) / per_frame;
    const int64_t cell = (latent_frame * kSide + row / cell_rows) * kSide + column / cell_columns;
    for (int64_t c = 0; c < 3; ++c) sums[3 * cell + c] += pixels[3 * i + c];
    ++counts[cell];
  }
  for (int64_t i = 0; i < kCells * 3; ++i) sums[i] /= counts[i / 3];
  return sums;
}

// Sums over cells of (channels, 1)ᵀ(channels, 1) and (channels, 1)ᵀ colours, and the solution of that system.
class NormalEquations {
 public:
  explicit NormalEquations(int64_t channels) : n_(channels + 1), left_(n_ * n_), right_(n_ * 3) {}

  void Add(const float* cell, const double* colour) {
    const auto at = [&](int64_t i) { return i + 1 == n_ ? 1.0 : static_cast<double>(cell[i]); };
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j <= i; ++j) left_[i * n_ + j] += at(i) * at(j);
      for (int64_t c = 0; c < 3; ++c) right_[3 * i + c] += at(i) * colour[c];
    }
  }

  // By Cholesky decomposition, in place.
  LatentToRgb Solve(double ridge) {
    for (int64_t i = 0; i + 1 < n_; ++i) left_[i * n_ + i] += ridge;
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double sum = left_[i * n_ + j];
        for (int64_t k = 0; k < j; ++k) sum -= left_[i * n_ + k] * left_[j * n_ + k];
        left_[i * n_ + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / left_[j * n_ + j];
      }
    }
    LatentToRgb map{.matrix = std::vector<float>(n_ * 3)};
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t i = 0; i < n_; ++i) Eliminate(i, 0, i, c, /*transposed=*/false);
      for (int64_t i = n_ - 1; i >= 0; --i) Eliminate(i, i + 1, n_, c, /*transposed=*/true);
    }
    for (int64_t i = 0; i < n_ * 3; ++i) map.matrix[i] = static_cast<float>(right_[i]);
    return map;
  }

 private:
  void Eliminate(int64_t i, int64_t begin, int64_t end, int64_t c, bool transposed) {
    for (int64_t k = begin; k < end; ++k) {
      right_[3 * i + c] -= (transposed ? left_[k * n_ + i] : left_[i * n_ + k]) * right_[3 * k + c];
    }
    right_[3 * i + c] /= left_[i * n_ + i];
  }

  const int64_t n_;
  std::vector<double> left_, right_;  // left_: only the lower triangle is used
};

}  // namespace

int64_t FitArenaBytes(DType dtype, const FrameDecoder& decoder) {
  return DryRunArenaBytes(dtype, [&](Exec& exec) {
    const ArenaScope scope(exec.arena);
    const WholeClip clip(decoder);
    const Tensor latent = exec.arena.Alloc(DType::kF32, LatentShape(decoder));
    KINORA_CHECK(clip.Decode(exec, latent, exec.arena.Alloc(DType::kF32, clip.OutputShape())).ok());
  });
}

absl::StatusOr<LatentToRgb> FitLatentToRgb(Exec& exec, const FrameDecoder& decoder,
                                           absl::FunctionRef<absl::Status()> on_draw) {
  const ArenaScope scope(exec.arena);
  const Tensor latent = exec.arena.Alloc(DType::kF32, LatentShape(decoder));
  const WholeClip clip(decoder);
  const Tensor out = exec.arena.Alloc(DType::kF32, clip.OutputShape());
  const int64_t channels = latent.width();
  NoiseSource noise(kSeed);
  NormalEquations equations(channels);
  std::vector<float> pixels(out.elements());
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> cells = SmoothLatent(noise, channels);
    exec.ops.stream().CopyFromHost(cells.data(), latent);
    KINORA_RETURN_IF_ERROR(clip.Decode(exec, latent, out));
    exec.ops.stream().CopyToHost(out, pixels.data());
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    const std::vector<double> colours = CellColours(pixels, out.shape());
    for (int64_t i = 0; i < kCells; ++i) equations.Add(cells.data() + i * channels, colours.data() + 3 * i);
    KINORA_RETURN_IF_ERROR(on_draw());
  }
  return equations.Solve(kRidge * kDraws * kCells);
}

absl::StatusOr<PreviewPicture> MakePreview(Exec& exec, const LatentToRgb& map, const LatentGrid& grid,
                                           const Tensor& latent) {
  const int64_t cells = grid.height * grid.width, channels = latent.width(), begin = grid.frames / 2 * cells;
  KINORA_CHECK_EQ(static_cast<int64_t>(map.matrix.size()), 3 * (channels + 1));
  std::vector<float> values(cells * channels);
  exec.ops.stream().CopyToHost(latent.Rows(begin, begin + cells), values.data());
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  PreviewPicture picture{.width = grid.width, .height = grid.height, .rgb = std::vector<uint8_t>(cells * 3)};
  for (int64_t i = 0; i < cells; ++i) {
    std::array<float, 3> colour{};
    std::copy_n(map.matrix.end() - 3, 3, colour.begin());
    for (int64_t k = 0; k < channels; ++k) {
      for (int64_t c = 0; c < 3; ++c) colour[c] += values[i * channels + k] * map.matrix[3 * k + c];
    }
    for (int64_t c = 0; c < 3; ++c) {
      picture.rgb[3 * i + c] = static_cast<uint8_t>(std::lrint(std::clamp((colour[c] + 1) / 2, 0.0f, 1.0f) * 255));
    }
  }
  return picture;
}

}  // namespace kinora

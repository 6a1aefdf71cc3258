// Test only: a clip that the demo model was trained on, and a measure of similarity to it.
#ifndef KINORA_TESTS_MODEL_MOVING_DISC_H_
#define KINORA_TESTS_MODEL_MOVING_DISC_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/testing/golden.h"

namespace kinora {

// [frames, side, side, 3] in -1..1: a yellow disc that moves right on a blue background.
inline HostTensor MovingDisc(int64_t frames, int64_t side) {
  HostTensor pixels(DType::kF32, {frames, side, side, 3});
  constexpr float kBlue[] = {40, 84, 214}, kYellow[] = {250, 222, 60}, kRadius = 0.19f, kWay = 0.38f / 24;  // a frame
  for (int64_t i = 0; i < frames * side * side; ++i) {
    const int64_t index = i / side / side;
    const auto length = static_cast<float>(side), frame = static_cast<float>(index);
    const float x = (static_cast<float>(i % side) + 0.5f) / length,
                y = (static_cast<float>(i / side % side) + 0.5f) / length;
    const float from_center = std::hypot(x - 0.31f - kWay * frame, y - 0.5f);
    const float inside = std::clamp((kRadius - from_center) * length + 0.5f, 0.0f, 1.0f);  // anti-aliased edge
    for (int c = 0; c < 3; ++c) pixels.f32()[3 * i + c] = (kBlue[c] + inside * (kYellow[c] - kBlue[c])) / 127.5f - 1;
  }
  return pixels;
}

// Returns the PSNR in dB of values in -1..1. Clamps `got` to that range.
inline double Psnr(const std::vector<float>& got, const Tensor& expected) {
  double squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = (std::clamp(got[i], -1.0f, 1.0f) - expected.data<float>()[i]) / 2;
    squares += off * off;
  }
  return -10 * std::log10(squares / static_cast<double>(got.size()));
}

}  // namespace kinora

#endif  // KINORA_TESTS_MODEL_MOVING_DISC_H_

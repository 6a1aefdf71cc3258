#include "engine/request/cover_and_crop.h"

#include <algorithm>
#include <cmath>

namespace kinora {
namespace {

struct Tap {
  int64_t low, high;
  float share;  // weight of `high`
};

struct Wanted {  // pixels along one side
  int64_t all, begin, count;
};

// As in torch's interpolate, the step between samples is the ratio of the whole sides, in float32.
std::vector<Tap> TapsOf(int64_t side, const Wanted& wanted, double scale) {
  const auto scaled = static_cast<int64_t>(std::ceil(static_cast<double>(side) * scale));
  const int64_t first = (scaled - wanted.all) / 2 + wanted.begin;
  const float step = static_cast<float>(side) / static_cast<float>(scaled);
  std::vector<Tap> taps(wanted.count);
  for (int64_t i = 0; i < wanted.count; ++i) {
    const float at = std::max(0.0f, step * (static_cast<float>(first + i) + 0.5f) - 0.5f);
    const int64_t low = std::min<int64_t>(static_cast<int64_t>(at), side - 1);
    taps[i] = {.low = low, .high = std::min<int64_t>(low + 1, side - 1), .share = at - static_cast<float>(low)};
  }
  return taps;
}

}  // namespace

std::vector<float> CoverAndCrop(const RgbView& picture, const CoveredSize& size) {
  std::vector<float> out(3 * size.width * size.height);
  CoverAndCrop(picture, size, {.height = size.height, .width = size.width}, out.data());
  return out;
}

void CoverAndCrop(const RgbView& picture, const CoveredSize& size, const PixelRegion& part, float* out) {
  const double scale = std::max(static_cast<double>(size.height) / static_cast<double>(picture.height),
                                static_cast<double>(size.width) / static_cast<double>(picture.width));
  const std::vector<Tap> columns = TapsOf(picture.width, {size.width, part.left, part.width}, scale);
  for (const Tap& row : TapsOf(picture.height, {size.height, part.top, part.height}, scale)) {
    const uint8_t* low = picture.rgb + 3 * row.low * picture.width;
    const uint8_t* high = picture.rgb + 3 * row.high * picture.width;
    for (const Tap& column : columns) {
      for (int c = 0; c < 3; ++c, ++out) {
        const auto between = [&](const uint8_t* line) {
          return (1 - column.share) * line[3 * column.low + c] + column.share * line[3 * column.high + c];
        };
        *out = ((1 - row.share) * between(low) + row.share * between(high)) / 127.5f - 1.0f;
      }
    }
  }
}

}  // namespace kinora

// Fits a picture of any size to a clip's size (ltx_pipelines/utils/media_io/resize.py).
#ifndef KINORA_ENGINE_REQUEST_COVER_AND_CROP_H_
#define KINORA_ENGINE_REQUEST_COVER_AND_CROP_H_

#include <cstdint>
#include <vector>

namespace kinora {

struct RgbView {
  const uint8_t* rgb = nullptr;  // [height, width, 3]
  int64_t width = 0, height = 0;
};

struct PixelRegion {
  int64_t top = 0, left = 0, height = 0, width = 0;
};
struct CoveredSize {
  int64_t width = 0, height = 0;
};

// Scales `picture` until it covers `size` (bilinear, half-pixel centres, no antialiasing), then crops the centre.
// Returns [height, width, 3] in [-1, 1]. No side may be 0.
std::vector<float> CoverAndCrop(const RgbView& picture, const CoveredSize& size);
// Writes only a part of that result. out: [part.height, part.width, 3].
void CoverAndCrop(const RgbView& picture, const CoveredSize& size, const PixelRegion& part, float* out);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_COVER_AND_CROP_H_

#include "server/worker/preview_jpeg.h"

#include <algorithm>

#include "engine/media/jpeg.h"

namespace kinora {

std::string PreviewJpeg(const PreviewPicture& picture, int64_t clip_width, int64_t clip_height) {
  constexpr int64_t kLongest = 384;  // enough for a corner of a screen; a latent cell is 32 pixels of the clip
  constexpr int kQuality = 80;
  const int64_t longest = std::max(clip_width, clip_height), side = std::min(longest, kLongest);
  const auto scaled = [&](int64_t length) { return std::max<int64_t>(1, (length * side + longest / 2) / longest); };
  return EncodeJpeg(Resize({.width = picture.width, .height = picture.height, .rgb = picture.rgb}, scaled(clip_width),
                           scaled(clip_height)),
                    kQuality);
}

}  // namespace kinora

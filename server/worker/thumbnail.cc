#include "server/worker/thumbnail.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/tensor/tensor.h"

namespace kinora {
namespace {

constexpr int64_t kLongest = 256;
constexpr int kQuality = 80;

}  // namespace

RgbPicture Shrink(RgbPicture picture, int64_t longest) {
  const int64_t side = std::max(picture.width, picture.height);
  if (side <= longest) return picture;
  const auto scaled = [&](int64_t length) { return std::max<int64_t>(1, (length * longest + side / 2) / side); };
  const int64_t width = scaled(picture.width), height = scaled(picture.height);
  // Resize reads at most four pixels for one, so a picture is halved until that is enough.
  while (std::max(picture.width, picture.height) >= 2 * longest) {
    picture = Resize(picture, (picture.width + 1) / 2, (picture.height + 1) / 2);
  }
  return Resize(picture, width, height);
}

absl::Status ThumbnailSink::Begin(const ClipInfo& info) {
  info_ = info;
  return clip_.Begin(info);
}

absl::Status ThumbnailSink::Frames(int64_t first, const Tensor& rgb8) {
  const int64_t index = info_.num_frames / 2 - first;
  if (index >= 0 && index < rgb8.dim(0)) {
    KINORA_CHECK(rgb8.shape() == Shape({rgb8.dim(0), info_.height, info_.width, 3})) << rgb8.shape().ToString();
    const int64_t bytes = info_.height * info_.width * 3;
    const uint8_t* const frame = rgb8.data<uint8_t>() + index * bytes;
    jpeg_ = EncodeJpeg(Shrink({.width = info_.width, .height = info_.height, .rgb = {frame, frame + bytes}}, kLongest),
                       kQuality);
  }
  return clip_.Frames(first, rgb8);
}

absl::Status ThumbnailSink::End() {
  if (jpeg_.empty()) {
    return absl::InternalError(absl::StrCat("thumbnail: frame ", info_.num_frames / 2, " of the clip did not come"));
  }
  return clip_.End();
}

}  // namespace kinora

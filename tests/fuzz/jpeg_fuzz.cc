// A preview that a client receives from a server and displays: a picture within the bounds, or an error.
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"
#include "engine/media/jpeg.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kLongest = 256;
  const auto picture = kinora::DecodeJpeg({reinterpret_cast<const char*>(data), size}, kLongest);
  if (!picture.ok()) return 0;
  KINORA_CHECK(picture->width > 0 && picture->width <= kLongest && picture->height > 0 && picture->height <= kLongest);
  KINORA_CHECK_EQ(static_cast<int64_t>(picture->rgb.size()), 3 * picture->width * picture->height);
  const kinora::RgbPicture shown = kinora::Resize(*picture, 17, 11);
  KINORA_CHECK_EQ(shown.rgb.size(), size_t{3 * 17 * 11});
  return 0;
}

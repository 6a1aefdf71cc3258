// A picture whose red increases to the right and whose green increases downwards, so that tests can track each pixel.
#ifndef KINORA_TESTS_TESTING_SLOPES_H_
#define KINORA_TESTS_TESTING_SLOPES_H_

#include <cstdint>

#include "engine/media/jpeg.h"

namespace kinora {

inline RgbPicture Slopes(int64_t width, int64_t height) {
  RgbPicture picture{.width = width, .height = height, .rgb = {}};
  picture.rgb.reserve(3 * width * height);
  for (int64_t i = 0; i < width * height; ++i) {
    picture.rgb.push_back(static_cast<uint8_t>(255 * (i % width) / width));
    picture.rgb.push_back(static_cast<uint8_t>(255 * (i / width) / height));
    picture.rgb.push_back(90);
  }
  return picture;
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_SLOPES_H_

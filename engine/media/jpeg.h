// Small pictures as JPEG, without FFmpeg. The worker writes previews; the client reads them to show them in terminals.
#ifndef KINORA_ENGINE_MEDIA_JPEG_H_
#define KINORA_ENGINE_MEDIA_JPEG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

struct RgbPicture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
  bool operator==(const RgbPicture&) const = default;
};

// Interpolates bilinearly between pixel centres; beyond the outermost centres the value is constant. CHECK-fails unless
// all sides are at least 1.
RgbPicture Resize(const RgbPicture& picture, int64_t width, int64_t height);

// Whether the path ends in ".jpg" or ".jpeg", in upper or lower case.
bool HasJpegEnding(std::string_view path);

// quality: 1..100.
std::string EncodeJpeg(const RgbPicture& picture, int quality);

// data: may be untrusted. Fails with DataLoss if it is not a complete JPEG, or if a side is longer than `longest`.
absl::StatusOr<RgbPicture> DecodeJpeg(std::string_view data, int64_t longest);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_JPEG_H_

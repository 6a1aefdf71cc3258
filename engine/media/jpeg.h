// Small pictures as JPEG, without FFmpeg: the worker writes previews, the client reads them for terminals.
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

// Bilinear between the centres of pixels, the outermost continued to the edge. Sides of 1 or more.
RgbPicture Resize(const RgbPicture& picture, int64_t width, int64_t height);

// ".jpg" or ".jpeg", in any case.
bool HasJpegEnding(std::string_view path);

// quality: 1..100.
std::string EncodeJpeg(const RgbPicture& picture, int quality);

// Data that strangers sent: DataLoss if it is no whole JPEG, or a side is longer than `longest`.
absl::StatusOr<RgbPicture> DecodeJpeg(std::string_view data, int64_t longest);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_JPEG_H_

// A decoded picture and its first processing steps, in the order of the reference (its media_io/decode.py): upright,
// sRGB, H.264 pass. The engine scales and crops it. The libraries used here parse untrusted data, so this code runs
// only in kinora-decode.
#ifndef KINORA_SERVER_DECODE_PICTURE_H_
#define KINORA_SERVER_DECODE_PICTURE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct AVFrame;

namespace kinora {

struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// Returns an image's pixels without their alpha. Grey, palette and 8- or 16-bit RGB are exact (the upper 8 of 16 bits);
// YUV is converted by its range and BT.601, with chroma upsampled by a triangle filter as in libjpeg and libwebp.
absl::StatusOr<Picture> ImageToRgb(const AVFrame& frame);

// Returns a frame of a clip as players show it: converted by libswscale with the frame's matrix and range.
absl::StatusOr<Picture> FrameToRgb(const AVFrame& frame);

// Applies EXIF's orientation 3, 6 or 8. Others leave the picture as it is, as in the reference.
Picture Upright(Picture picture, int orientation);

// Converts from an ICC profile to sRGB, perceptually. Does nothing if the profile is damaged or not for RGB.
void ToSrgb(std::string_view profile, Picture& picture);

// Encodes and decodes the picture as one frame of H.264 (libx264, yuv420p, veryfast), as in training. Odd sides are
// first cut to even ones. crf: 1…51.
absl::StatusOr<Picture> H264Pass(const Picture& picture, int crf);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_PICTURE_H_

// A decoded picture and what is done to it before a model sees it, in the reference's order (its media_io/decode.py and
// resize.py): upright, sRGB, the H.264 pass, then cover and crop. Libraries here read what strangers made: this runs in
// kinora-decode alone.
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

// An image's pixels without their alpha. Grey, palette and 8- or 16-bit RGB exactly (of 16 bits the upper 8); YUV by
// its range and BT.601, its colours spread by a triangle between their centres, as libjpeg and libwebp do.
absl::StatusOr<Picture> ImageToRgb(const AVFrame& frame);

// A frame of a clip, as players show it: libswscale's own way, by the frame's matrix and range.
absl::StatusOr<Picture> FrameToRgb(const AVFrame& frame);

// EXIF's orientation 3, 6 or 8; others leave the picture as it is, as the reference does.
Picture Upright(Picture picture, int orientation);

// By an ICC profile to sRGB, perceptually. One that is damaged, or of another kind of colour, changes nothing.
void ToSrgb(std::string_view profile, Picture& picture);

// Through one frame of H.264 (libx264, yuv420p, veryfast), as in training; cut to even sides before. crf: 1…51.
absl::StatusOr<Picture> H264Pass(const Picture& picture, int crf);

// As cover_and_crop.h. [height, width, 3] in [-1, 1].
std::vector<float> CoverAndCrop(const Picture& picture, int width, int height);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_PICTURE_H_

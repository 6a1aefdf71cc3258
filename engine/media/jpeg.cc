#include "engine/media/jpeg.h"

// clang-format off: jpeglib.h uses types of <cstdio> and includes nothing
#include <jpeglib.h>

#include <cstdio>
// clang-format on

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

// Error handler for libjpeg: jumps out of libjpeg on an error, and also on a warning, so that no part of a damaged
// picture is shown.
struct Errors {
  jpeg_error_mgr manager{};  // must be first: Leave casts libjpeg's pointer to it to Errors*
  std::jmp_buf leave{};
  char text[JMSG_LENGTH_MAX] = "";

  static void Leave(j_common_ptr codec) {
    auto* const self = reinterpret_cast<Errors*>(codec->err);
    (*codec->err->format_message)(codec, self->text);
    std::longjmp(self->leave, 1);  // NOLINT(cert-err52-cpp): the library's way
  }
  static void LeaveIfWarned(j_common_ptr codec, int level) {
    if (level < 0) Leave(codec);
  }
  jpeg_error_mgr* Install() {
    jpeg_std_error(&manager);
    manager.error_exit = Leave;
    manager.emit_message = LeaveIfWarned;
    return &manager;
  }
};

// No object between setjmp and longjmp has a destructor.
bool Compress(const RgbPicture& picture, int quality, Errors& errors, unsigned char** out, unsigned long* size) {
  jpeg_compress_struct codec{};
  codec.err = errors.Install();
  if (setjmp(errors.leave) != 0) {  // NOLINT(cert-err52-cpp)
    jpeg_destroy_compress(&codec);
    return false;
  }
  jpeg_create_compress(&codec);
  jpeg_mem_dest(&codec, out, size);
  codec.image_width = static_cast<JDIMENSION>(picture.width);
  codec.image_height = static_cast<JDIMENSION>(picture.height);
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, /*force_baseline=*/TRUE);
  codec.optimize_coding = TRUE;
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    auto* row = const_cast<JSAMPLE*>(picture.rgb.data() + 3 * picture.width * codec.next_scanline);
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  return true;
}

bool Decompress(std::string_view data, int64_t longest, Errors& errors, RgbPicture& picture) {
  jpeg_decompress_struct codec{};
  codec.err = errors.Install();
  if (setjmp(errors.leave) != 0) {  // NOLINT(cert-err52-cpp)
    jpeg_destroy_decompress(&codec);
    return false;
  }
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(data.data()), data.size());
  jpeg_read_header(&codec, TRUE);
  const bool fits = codec.image_width <= longest && codec.image_height <= longest;
  if (fits) {
    codec.out_color_space = JCS_RGB;
    jpeg_start_decompress(&codec);
    picture.width = codec.output_width;
    picture.height = codec.output_height;
    picture.rgb.resize(3 * picture.width * picture.height);
    while (codec.output_scanline < codec.output_height) {
      JSAMPLE* row = picture.rgb.data() + 3 * picture.width * codec.output_scanline;
      jpeg_read_scanlines(&codec, &row, 1);
    }
    jpeg_finish_decompress(&codec);
  } else {
    std::snprintf(errors.text, sizeof errors.text, "%ux%u pixels", codec.image_width, codec.image_height);
  }
  jpeg_destroy_decompress(&codec);
  return fits;
}

// Position of an output pixel along one side of the input, between the pixels `low` and `high`.
struct Place {
  int64_t low, high;
  double share;  // weight of `high`
};

std::vector<Place> Places(int64_t from, int64_t to) {
  std::vector<Place> places;
  places.reserve(to);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double at = std::clamp(centre, 0.0, static_cast<double>(from - 1));
    const auto low = static_cast<int64_t>(at);
    places.push_back({low, std::min(low + 1, from - 1), at - static_cast<double>(low)});
  }
  return places;
}

}  // namespace

RgbPicture Resize(const RgbPicture& picture, int64_t width, int64_t height) {
  KINORA_CHECK(width > 0 && height > 0 && picture.width > 0 && picture.height > 0);
  RgbPicture out{.width = width, .height = height, .rgb = std::vector<uint8_t>(3 * width * height)};
  const std::vector<Place> columns = Places(picture.width, width), rows = Places(picture.height, height);
  uint8_t* pixel = out.rgb.data();
  for (const Place& row : rows) {
    const uint8_t* const above = picture.rgb.data() + 3 * picture.width * row.low;
    const uint8_t* const below = picture.rgb.data() + 3 * picture.width * row.high;
    for (const Place& column : columns) {
      const auto across = [&](const uint8_t* line, int c) {
        return line[3 * column.low + c] * (1 - column.share) + line[3 * column.high + c] * column.share;
      };
      for (int c = 0; c < 3; ++c) {
        *pixel++ = static_cast<uint8_t>(std::lrint(across(above, c) * (1 - row.share) + across(below, c) * row.share));
      }
    }
  }
  return out;
}

bool HasJpegEnding(std::string_view path) {
  const std::string lower = absl::AsciiStrToLower(std::string(path));
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg");
}

std::string EncodeJpeg(const RgbPicture& picture, int quality) {
  KINORA_CHECK_EQ(static_cast<int64_t>(picture.rgb.size()), 3 * picture.width * picture.height);
  Errors errors;
  unsigned char* data = nullptr;
  unsigned long size = 0;
  const bool done = Compress(picture, quality, errors, &data, &size);
  const std::unique_ptr<unsigned char, decltype(&std::free)> owned(data, &std::free);
  KINORA_CHECK(done) << errors.text;
  return {reinterpret_cast<const char*>(data), size};
}

absl::StatusOr<RgbPicture> DecodeJpeg(std::string_view data, int64_t longest) {
  Errors errors;
  RgbPicture picture;
  if (Decompress(data, longest, errors, picture)) return picture;
  return absl::DataLossError(absl::StrCat("not a JPEG to show: ", errors.text));
}

}  // namespace kinora

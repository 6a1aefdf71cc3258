// Pictures in terminals that can show them: which of three protocols a terminal speaks, and a picture in each of them.
#ifndef KINORA_SERVER_TOOLS_TERMINAL_PICTURE_H_
#define KINORA_SERVER_TOOLS_TERMINAL_PICTURE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "engine/media/jpeg.h"

namespace kinora {

enum class PictureProtocol : uint8_t { kNone, kKitty, kITerm2, kSixel };

// By what terminals set in their programs' environment. Within tmux and screen none: they pass no pictures on.
PictureProtocol DetectPictureProtocol(absl::FunctionRef<const char*(const char* name)> environment);

// Of a terminal; pixels of a character, 0: it does not say, and 10x20 are taken.
struct TerminalSize {
  int columns = 80, rows = 24;
  int cell_width = 0, cell_height = 0;
};

// What a picture takes up, its proportions kept: at most 14 rows, less where the terminal is small. At least 1 each.
struct PictureCells {
  int columns = 1, rows = 1;
  bool operator==(const PictureCells&) const = default;
};
PictureCells FitIntoCells(int64_t width, int64_t height, const TerminalSize& terminal);

// Sequences that show a picture with its upper left corner at the cursor.

// https://sw.kovidgoyal.net/kitty/graphics-protocol: raw pixels. The one before it of this program goes.
std::string KittySequence(const RgbPicture& picture, const PictureCells& cells);
// https://iterm2.com/documentation-images.html: the file as it is.
std::string ITerm2Sequence(absl::string_view file, const PictureCells& cells);
// DEC's sixels (VT330/VT340 Programmer Reference Manual, chapter 14): dithered to 216 colours, pixel for pixel.
std::string SixelSequence(const RgbPicture& picture);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_TERMINAL_PICTURE_H_

// Pictures in terminals: detects which of three protocols a terminal supports, and encodes a picture for each.
#ifndef KINORA_SERVER_TERMINAL_TERMINAL_PICTURE_H_
#define KINORA_SERVER_TERMINAL_TERMINAL_PICTURE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "engine/media/jpeg.h"

namespace kinora {

enum class PictureProtocol : uint8_t { kNone, kKitty, kITerm2, kSixel };

// Detects the protocol from environment variables that terminals set. kNone within tmux and screen, which do not pass
// pictures on.
PictureProtocol DetectPictureProtocol(absl::FunctionRef<const char*(const char* name)> environment);

// Size of a terminal in characters. cell_width and cell_height, in pixels, are 0 if unknown; then 10x20 is assumed.
struct TerminalSize {
  int columns = 80, rows = 24;
  int cell_width = 0, cell_height = 0;
};

// Cells that a picture occupies, with its proportions kept: at most 14 rows, fewer on a small terminal, at least 1
// each.
struct PictureCells {
  int columns = 1, rows = 1;
  bool operator==(const PictureCells&) const = default;
};
PictureCells FitIntoCells(int64_t width, int64_t height, const TerminalSize& terminal);

// The sequences draw a picture with its upper left corner at the cursor.

// https://sw.kovidgoyal.net/kitty/graphics-protocol: raw pixels. Replaces this program's previous picture.
std::string KittySequence(const RgbPicture& picture, const PictureCells& cells);
// https://iterm2.com/documentation-images.html: the unchanged file.
std::string ITerm2Sequence(absl::string_view file, const PictureCells& cells);
// DEC's sixels (VT330/VT340 Programmer Reference Manual, chapter 14): dithered to 216 colours, pixel for pixel.
std::string SixelSequence(const RgbPicture& picture);

}  // namespace kinora

#endif  // KINORA_SERVER_TERMINAL_TERMINAL_PICTURE_H_

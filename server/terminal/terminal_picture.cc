#include "server/terminal/terminal_picture.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr int kLevels = 6;  // per colour channel of a sixel picture
constexpr int kColours = kLevels * kLevels * kLevels;

// Ordered dither with Bayer's 4x4 matrix: levels whose average is the value.
int Level(int value, int64_t x, int64_t y) {
  constexpr std::array<int, 16> kBayer = {0, 8, 2, 10, 12, 4, 14, 6, 3, 11, 1, 9, 15, 7, 13, 5};
  const int threshold = 2 * kBayer[(y % 4) * 4 + x % 4] + 1;  // of 32
  return (value * (kLevels - 1) * 32 + threshold * 255) / (255 * 32);
}

std::vector<uint8_t> Dither(const RgbPicture& picture) {
  std::vector<uint8_t> colours;
  colours.reserve(picture.width * picture.height);
  for (int64_t i = 0; i < picture.width * picture.height; ++i) {
    int colour = 0;
    for (int c = 0; c < 3; ++c) {
      colour = colour * kLevels + Level(picture.rgb[3 * i + c], i % picture.width, i / picture.width);
    }
    colours.push_back(static_cast<uint8_t>(colour));
  }
  return colours;
}

void AppendRun(std::string& out, char sixel, int64_t length) {
  if (length > 3) {
    absl::StrAppend(&out, "!", length);
    out += sixel;
  } else {
    out.append(length, sixel);
  }
}

// Appends one colour's pixels in up to six rows from `top` on.
void AppendBand(std::string& out, const std::vector<uint8_t>& colours, int64_t width, int64_t top, int64_t rows,
                int colour) {
  char last = 0;
  int64_t length = 0;
  for (int64_t x = 0; x < width; ++x) {
    int bits = 0;
    for (int64_t y = 0; y < rows; ++y) bits |= (colours[(top + y) * width + x] == colour) << y;
    const char sixel = static_cast<char>(63 + bits);
    if (sixel != last && length > 0) AppendRun(out, last, std::exchange(length, 0));
    last = sixel;
    ++length;
  }
  if (last != 63) AppendRun(out, last, length);  // an empty rest of the row is omitted
}

}  // namespace

PictureProtocol DetectPictureProtocol(absl::FunctionRef<const char*(const char* name)> environment) {
  const auto variable = [&](const char* name) {
    const char* const value = environment(name);
    return absl::string_view(value != nullptr ? value : "");
  };
  const absl::string_view term = variable("TERM"), program = variable("TERM_PROGRAM");
  if (!variable("TMUX").empty() || !variable("STY").empty() || absl::StartsWith(term, "tmux") ||
      absl::StartsWith(term, "screen")) {
    return PictureProtocol::kNone;
  }
  if (!variable("KITTY_WINDOW_ID").empty() || absl::StrContains(term, "kitty") || absl::StrContains(term, "ghostty")) {
    return PictureProtocol::kKitty;
  }
  if (program == "iTerm.app" || program == "WezTerm" || program == "mintty" || variable("LC_TERMINAL") == "iTerm2") {
    return PictureProtocol::kITerm2;
  }
  const bool sixel = absl::StrContains(term, "sixel") || absl::StartsWith(term, "foot") ||
                     absl::StartsWith(term, "mlterm") || absl::StartsWith(term, "contour");
  return sixel ? PictureProtocol::kSixel : PictureProtocol::kNone;
}

PictureCells FitIntoCells(int64_t width, int64_t height, const TerminalSize& terminal) {
  constexpr int kMostRows = 14, kOtherRows = 4;
  const double cell_width = terminal.cell_width > 0 ? terminal.cell_width : 10;
  const double cell_height = terminal.cell_height > 0 ? terminal.cell_height : 20;
  const double shape = static_cast<double>(width) / static_cast<double>(height) * cell_height / cell_width;
  int rows = std::clamp(terminal.rows - kOtherRows, 1, kMostRows);
  const int most_columns = std::max(1, terminal.columns - 1);
  if (rows * shape > most_columns) rows = std::max(1, static_cast<int>(most_columns / shape));
  return {.columns = std::clamp(static_cast<int>(rows * shape + 0.5), 1, most_columns), .rows = rows};
}

std::string KittySequence(const RgbPicture& picture, const PictureCells& cells) {
  constexpr size_t kPiece = 4096;  // bytes of base64, a multiple of 4
  const std::string data = absl::Base64Escape({reinterpret_cast<const char*>(picture.rgb.data()), picture.rgb.size()});
  std::string out;
  for (size_t at = 0; at < data.size(); at += kPiece) {
    const int more = at + kPiece < data.size() ? 1 : 0;
    // a=T: show at once; i, p: replace the previous picture; C=1: do not move the cursor; q=2: suppress responses
    const std::string first = at > 0 ? ""
                                     : absl::StrCat("a=T,f=24,s=", picture.width, ",v=", picture.height,
                                                    ",i=7311,p=1,c=", cells.columns, ",r=", cells.rows, ",C=1,q=2,");
    absl::StrAppend(&out, "\033_G", first, "m=", more, ";", data.substr(at, kPiece), "\033\\");
  }
  return out;
}

std::string ITerm2Sequence(absl::string_view file, const PictureCells& cells) {
  return absl::StrCat("\033]1337;File=inline=1;size=", file.size(), ";width=", cells.columns, ";height=", cells.rows,
                      ";preserveAspectRatio=1:", absl::Base64Escape(file), "\a");
}

std::string SixelSequence(const RgbPicture& picture) {
  const std::vector<uint8_t> colours = Dither(picture);
  std::string out = absl::StrCat("\033P0;1q\"1;1;", picture.width, ";", picture.height);
  std::array<bool, kColours> used{};
  for (const uint8_t colour : colours) used[colour] = true;
  for (int i = 0; i < kColours; ++i) {  // in percent
    if (!used[i]) continue;
    absl::StrAppend(&out, "#", i, ";2;", i / 36 * 20, ";", i / 6 % 6 * 20, ";", i % 6 * 20);
  }
  for (int64_t top = 0; top < picture.height; top += 6) {
    const int64_t rows = std::min<int64_t>(6, picture.height - top);
    std::array<bool, kColours> here{};
    for (int64_t i = top * picture.width; i < (top + rows) * picture.width; ++i) here[colours[i]] = true;
    for (int i = 0; i < kColours; ++i) {
      if (!here[i]) continue;
      absl::StrAppend(&out, "#", i);
      AppendBand(out, colours, picture.width, top, rows, i);
      out += '$';
    }
    out += '-';
  }
  return out + "\033\\";
}

}  // namespace kinora

// The three protocols, read back by independent decoders.
#include "server/terminal/terminal_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/testing/slopes.h"

namespace kinora {
namespace {

using Keys = std::map<std::string, std::string>;

Keys KeysOf(absl::string_view text, char between) {
  Keys keys;
  for (const absl::string_view pair : absl::StrSplit(text, between)) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    keys[parts.first] = parts.second;
  }
  return keys;
}

TEST(TerminalPicture, KittyGetsItsPixelsInPieces) {
  const RgbPicture picture = Slopes(61, 40);
  std::string rest = KittySequence(picture, {.columns = 20, .rows = 7}), data;
  Keys first;
  for (bool more = true; more;) {
    ASSERT_EQ(rest.substr(0, 3), "\033_G");
    const size_t semicolon = rest.find(';'), end = rest.find("\033\\");
    ASSERT_TRUE(semicolon < end && end != std::string::npos);
    const Keys keys = KeysOf(rest.substr(3, semicolon - 3), ',');
    if (first.empty()) first = keys;
    EXPECT_LE(end - semicolon - 1, 4096u);
    data += rest.substr(semicolon + 1, end - semicolon - 1);
    more = keys.at("m") == "1";
    rest.erase(0, end + 2);
  }
  EXPECT_EQ(rest, "");
  for (const auto& [key, value] :
       Keys{{"a", "T"}, {"f", "24"}, {"s", "61"}, {"v", "40"}, {"c", "20"}, {"r", "7"}, {"C", "1"}, {"q", "2"}}) {
    EXPECT_EQ(first[key], value) << key;
  }
  std::string pixels;
  ASSERT_TRUE(absl::Base64Unescape(data, &pixels));
  EXPECT_EQ(std::vector<uint8_t>(pixels.begin(), pixels.end()), picture.rgb);
}

TEST(TerminalPicture, ITerm2GetsTheFile) {
  const std::string file("\xff\xd8 any bytes \0\033\a", 15);
  const std::string sequence = ITerm2Sequence(file, {.columns = 30, .rows = 9});
  const std::string prefix = "\033]1337;File=";
  ASSERT_EQ(sequence.substr(0, prefix.size()), prefix);
  ASSERT_EQ(sequence.back(), '\a');
  const size_t colon = sequence.find(':');
  Keys keys = KeysOf(sequence.substr(prefix.size(), colon - prefix.size()), ';');
  EXPECT_EQ(keys,
            (Keys{{"inline", "1"}, {"size", "15"}, {"width", "30"}, {"height", "9"}, {"preserveAspectRatio", "1"}}));
  std::string back;
  ASSERT_TRUE(absl::Base64Unescape(sequence.substr(colon + 1, sequence.size() - colon - 2), &back));
  EXPECT_EQ(back, file);
}

// The subset of a sixel terminal that pictures use.
class SixelScreen {
 public:
  // Returns false on a byte that the protocol does not define.
  bool Read(absl::string_view text) {
    while (!text.empty()) {
      const char c = text[0];
      text.remove_prefix(1);
      if (c == '"') {
        const std::vector<int> raster = Numbers(text);
        width_ = raster[2];
        height_ = raster[3];
        rgb_.assign(3 * width_ * height_, -1);
      } else if (c == '#') {
        const std::vector<int> numbers = Numbers(text);
        colour_ = numbers[0];
        if (numbers.size() == 5) palette_[colour_] = {numbers[2], numbers[3], numbers[4]};
      } else if (c == '!') {
        const int repeat = Numbers(text)[0];
        Put(text[0], repeat);
        text.remove_prefix(1);
      } else if (c == '$') {
        x_ = 0;
      } else if (c == '-') {
        x_ = 0;
        y_ += 6;
      } else if (c >= 63 && c <= 126) {
        Put(c, 1);
      } else {
        return false;
      }
    }
    return true;
  }
  int64_t width_ = 0, height_ = 0;
  std::vector<int> rgb_;  // -1: not drawn

 private:
  static std::vector<int> Numbers(absl::string_view& text) {
    std::vector<int> numbers(1);
    for (; !text.empty() && (text[0] == ';' || (text[0] >= '0' && text[0] <= '9')); text.remove_prefix(1)) {
      if (text[0] == ';') {
        numbers.push_back(0);
      } else {
        numbers.back() = numbers.back() * 10 + text[0] - '0';
      }
    }
    return numbers;
  }
  void Put(char sixel, int repeat) {
    for (; repeat > 0; --repeat, ++x_) {
      for (int bit = 0; bit < 6; ++bit) {
        if (((sixel - 63) >> bit & 1) == 0) continue;
        const int64_t at = (y_ + bit) * width_ + x_;
        ASSERT_TRUE(x_ < width_ && y_ + bit < height_);
        for (int c = 0; c < 3; ++c) rgb_[3 * at + c] = (palette_.at(colour_)[c] * 255 + 50) / 100;
      }
    }
  }
  std::map<int, std::array<int, 3>> palette_;
  int colour_ = 0;
  int64_t x_ = 0, y_ = 0;
};

TEST(TerminalPicture, SixelsShowThePictureDithered) {
  const RgbPicture picture = Slopes(64, 43);  // the last band is incomplete
  const std::string sequence = SixelSequence(picture);
  ASSERT_EQ(sequence.substr(0, 7), "\033P0;1q\"");
  ASSERT_EQ(sequence.substr(sequence.size() - 2), "\033\\");
  SixelScreen screen;
  ASSERT_TRUE(screen.Read(absl::string_view(sequence).substr(6, sequence.size() - 8)));
  ASSERT_EQ(screen.width_, 64);
  ASSERT_EQ(screen.height_, 43);
  double squares = 0;
  for (int64_t y = 0; y + 4 <= 43; y += 4) {  // averages over a cell of the dither
    for (int64_t x = 0; x < 64; x += 4) {
      for (int c = 0; c < 3; ++c) {
        double difference = 0;
        for (int64_t i = 0; i < 16; ++i) {
          const int64_t at = 3 * ((y + i / 4) * 64 + x + i % 4) + c;
          ASSERT_GE(screen.rgb_[at], 0);
          difference += (screen.rgb_[at] - picture.rgb[at]) / 16.0;
        }
        squares += difference * difference;
      }
    }
  }
  EXPECT_LT(std::sqrt(squares / (10 * 16 * 3)), 5);
  for (const int value : screen.rgb_) ASSERT_GE(value, 0);
}

TEST(TerminalPicture, APictureTakesTheRowsThatThereAre) {
  EXPECT_EQ(FitIntoCells(384, 256, {}), (PictureCells{.columns = 42, .rows = 14}));
  EXPECT_EQ(FitIntoCells(384, 256, {.columns = 20, .rows = 24}), (PictureCells{.columns = 18, .rows = 6}));
  EXPECT_EQ(FitIntoCells(384, 256, {.columns = 80, .rows = 9}), (PictureCells{.columns = 15, .rows = 5}));
  EXPECT_EQ(FitIntoCells(256, 256, {.columns = 80, .rows = 24, .cell_width = 16, .cell_height = 16}),
            (PictureCells{.columns = 14, .rows = 14}));
  EXPECT_EQ(FitIntoCells(4096, 1, {.columns = 1, .rows = 1}), (PictureCells{.columns = 1, .rows = 1}));
}

TEST(TerminalPicture, TerminalsAreKnownByTheirEnvironment) {
  const std::pair<Keys, PictureProtocol> cases[] = {
      {{}, PictureProtocol::kNone},
      {{{"TERM", "xterm-256color"}}, PictureProtocol::kNone},
      {{{"TERM", "xterm-kitty"}}, PictureProtocol::kKitty},
      {{{"TERM", "xterm-256color"}, {"KITTY_WINDOW_ID", "1"}}, PictureProtocol::kKitty},
      {{{"TERM", "xterm-ghostty"}}, PictureProtocol::kKitty},
      {{{"TERM", "tmux-256color"}, {"KITTY_WINDOW_ID", "1"}}, PictureProtocol::kNone},
      {{{"TERM", "xterm-kitty"}, {"TMUX", "/tmp/tmux"}}, PictureProtocol::kNone},
      {{{"TERM_PROGRAM", "iTerm.app"}}, PictureProtocol::kITerm2},
      {{{"LC_TERMINAL", "iTerm2"}}, PictureProtocol::kITerm2},
      {{{"TERM_PROGRAM", "WezTerm"}}, PictureProtocol::kITerm2},
      {{{"TERM", "screen-256color"}, {"LC_TERMINAL", "iTerm2"}}, PictureProtocol::kNone},
      {{{"TERM", "foot"}}, PictureProtocol::kSixel},
      {{{"TERM", "yaft-sixel"}}, PictureProtocol::kSixel}};
  for (const auto& [environment, protocol] : cases) {
    const auto get = [&environment = environment](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    };
    EXPECT_EQ(DetectPictureProtocol(get), protocol) << testing::PrintToString(environment);
  }
}

}  // namespace
}  // namespace kinora

#include "engine/media/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/slopes.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

TEST(Jpeg, APictureComesBackAboutAsItWas) {
  const RgbPicture picture = Slopes(37, 21);  // not multiples of anything
  const std::string jpeg = EncodeJpeg(picture, 90);
  EXPECT_EQ(jpeg, EncodeJpeg(picture, 90));
  KINORA_ASSERT_OK_AND_ASSIGN(const RgbPicture back, DecodeJpeg(jpeg, 64));
  ASSERT_EQ(back.rgb.size(), picture.rgb.size());
  EXPECT_EQ(back.width, 37);
  double squares = 0;
  for (size_t i = 0; i < back.rgb.size(); ++i) squares += std::pow(back.rgb[i] - picture.rgb[i], 2);
  EXPECT_LT(std::sqrt(squares / static_cast<double>(back.rgb.size())), 4);
}

TEST(Jpeg, WhatIsNoWholeJpegOrTooLargeIsRefused) {
  const std::string jpeg = EncodeJpeg(Slopes(40, 20), 90);
  for (size_t length = 0; length < jpeg.size(); ++length) {
    EXPECT_THAT(DecodeJpeg(jpeg.substr(0, length), 64), StatusIs(absl::StatusCode::kDataLoss)) << length;
  }
  for (size_t i = 0; i < jpeg.size(); ++i) {  // a decoded picture has a bounded size
    std::string damaged = jpeg;
    damaged[i] = static_cast<char>(~damaged[i]);
    const auto picture = DecodeJpeg(damaged, 64);
    if (picture.ok()) {
      EXPECT_LE(std::max(picture->width, picture->height), 64) << i;
    }
  }
  EXPECT_THAT(DecodeJpeg(jpeg, 39), StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("40x20 pixels")));
}

TEST(Resize, ASlopeStaysASlopeAndOnePixelOneColour) {
  const RgbPicture two{.width = 2, .height = 1, .rgb = {0, 0, 0, 200, 100, 40}};
  EXPECT_EQ(Resize(two, 4, 2).rgb, (std::vector<uint8_t>{0, 0, 0, 50, 25, 10, 150, 75, 30, 200, 100, 40,  //
                                                         0, 0, 0, 50, 25, 10, 150, 75, 30, 200, 100, 40}));
  const RgbPicture one{.width = 1, .height = 1, .rgb = {1, 2, 3}};
  EXPECT_EQ(Resize(one, 1, 2).rgb, (std::vector<uint8_t>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(Resize(two, 2, 1), two);
}

}  // namespace
}  // namespace kinora

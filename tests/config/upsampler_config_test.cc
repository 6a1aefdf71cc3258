#include "engine/config/upsampler_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

UpsamplerConfig Parse(std::string_view json) {
  auto config = ParseUpsamplerConfig(json, "spatial_upsampler");
  EXPECT_THAT(config.status(), IsOk());
  return config.value_or(UpsamplerConfig());
}

TEST(UpsamplerConfig, AbsentFieldsTakeTheDefaultsOfTheCodeThatWroteTheFile) {
  EXPECT_EQ(Parse("{}"), UpsamplerConfig());
  EXPECT_EQ(Parse(R"({"_class_name": "LTX2LatentUpsamplerModel"})"),
            (UpsamplerConfig{.mid_channels = 1024, .rational = true}));
  EXPECT_EQ(Parse(R"({"_class_name": "LTX2LatentUpsamplerModel", "rational_spatial_scale": 1.5})"),
            (UpsamplerConfig{.mid_channels = 1024, .rational = true, .space_up = 3, .space_down = 2}));
}

TEST(UpsamplerConfig, EveryKindIsRead) {
  EXPECT_EQ(Parse(R"({"in_channels": 64, "mid_channels": 96, "num_blocks_per_stage": 1, "dims": 2})"),
            (UpsamplerConfig{.latent_channels = 64, .mid_channels = 96, .blocks = 1, .over_time = false}));
  EXPECT_EQ(Parse(R"({"rational_resampler": true, "spatial_scale": 0.75})"),
            (UpsamplerConfig{.rational = true, .space_up = 3, .space_down = 4}));
  EXPECT_EQ(Parse(R"({"spatial_upsample": false, "temporal_upsample": true})"),
            (UpsamplerConfig{.space_up = 1, .time_up = 2}));
  EXPECT_EQ(Parse(R"({"temporal_upsample": true, "rational_resampler": true})"), (UpsamplerConfig{.time_up = 2}));
}

TEST(UpsamplerConfig, WhatDoesNotExistIsRefusedByField) {
  const std::pair<const char*, const char*> mistakes[] = {
      {R"({"_class_name": "Vocoder"})", "spatial_upsampler._class_name"},
      {R"({"dims": 1})", "dims: must be 2 or 3"},
      {R"({"dims": 2, "temporal_upsample": true})", "dims: must be 3 where"},
      {R"({"spatial_upsample": false})", "spatial_upsample: and temporal_upsample are both false"},
      {R"({"spatial_scale": 1.5})", "spatial_scale: is not 2, which needs the rational resampler"},
      {R"({"spatial_scale": 3, "rational_resampler": true})", "spatial_scale: must be 0.75, 1.5, 2 or 4"},
      {R"({"mid_channels": 48})", "mid_channels: must be a multiple of 32"},
      {R"({"mid_channels": 8192})", "mid_channels: times 4 is more than"},
      {R"({"in_channels": -1})", "in_channels"},
  };
  for (const auto& [json, name] : mistakes) {
    EXPECT_THAT(ParseUpsamplerConfig(json, "spatial_upsampler").status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)))
        << json;
  }
  EXPECT_THAT(ParseUpsamplerConfig("{", "up").status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("up")));
}

TEST(UpsamplerConfig, ShapesGoBothWaysOrAreRefusedByTheSide) {
  const UpsamplerConfig x2{.mid_channels = 64}, x1_5{.rational = true, .space_up = 3, .space_down = 2},
      later{.space_up = 1, .time_up = 2};
  EXPECT_EQ(x2.OutputShape({3, 4, 5, 128}), Shape({3, 8, 10, 128}));
  EXPECT_EQ(x1_5.OutputShape({3, 4, 6, 128}), Shape({3, 6, 9, 128}));
  EXPECT_EQ(x1_5.OutputShape({3, 5, 7, 128}), Shape({3, 8, 11, 128}));
  EXPECT_EQ(later.OutputShape({3, 4, 5, 128}), Shape({5, 4, 5, 128}));
  for (const UpsamplerConfig& c : {x2, x1_5, later}) {
    const Shape wanted{5, 12, 18, 128};
    const auto from = c.InputShape(wanted);
    ASSERT_THAT(from.status(), IsOk());
    EXPECT_EQ(c.OutputShape(*from), wanted);
  }
  const auto refused = [](std::string_view side, std::string_view rule) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr(std::string(side)), HasSubstr(std::string(rule))));
  };
  EXPECT_THAT(x2.InputShape({3, 8, 9, 128}).status(), refused("width: 9 latent cells", "a multiple of 2"));
  EXPECT_THAT(x1_5.InputShape({3, 8, 9, 128}).status(), refused("height: 8 latent cells", "a multiple of 3"));
  EXPECT_THAT(later.InputShape({4, 8, 9, 128}).status(), refused("num_frames: 4 latent frames", "of 2, plus 1"));
}

}  // namespace
}  // namespace kinora

#include "server/request/shape_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/common/status_details.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

v1::Estimate TooLarge() {
  v1::Estimate estimate;
  estimate.mutable_effective()->set_width(1024);
  estimate.mutable_effective()->set_height(512);
  estimate.mutable_effective()->set_num_frames(257);
  estimate.add_problems("it needs 12.30 GiB for activations, 4.00 GiB are reserved");
  return estimate;
}

TEST(ShapeTooLarge, NamesTheLongestClipOfTheSizeThatFits) {
  v1::Estimate estimate = TooLarge();
  estimate.mutable_nearest()->set_width(1024);
  estimate.mutable_nearest()->set_height(512);
  estimate.mutable_nearest()->set_num_frames(97);
  const absl::Status status = ShapeTooLarge(estimate);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("1024x512 with 257 frames does not fit"), HasSubstr("12.30 GiB"),
                                     HasSubstr("nearest at this size: 97"))));
  EXPECT_EQ(ErrorReason(status), "SHAPE_TOO_LARGE");
  ASSERT_THAT(Violations(status), SizeIs(1));
  EXPECT_EQ(Violations(status)[0].field, "generation.num_frames");
}

TEST(ShapeTooLarge, NamesTheLongestDurationThatTheModelMayChoose) {
  v1::Estimate estimate = TooLarge();
  estimate.mutable_effective()->set_num_frames(0);
  estimate.mutable_effective()->set_frame_rate(24);
  estimate.mutable_effective()->mutable_auto_length()->set_max_seconds(20);
  estimate.mutable_nearest()->set_width(1024);
  estimate.mutable_nearest()->set_height(512);
  estimate.mutable_nearest()->set_num_frames(96);
  const absl::Status status = ShapeTooLarge(estimate);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("1024x512 with up to 20 s does not fit"),
                                                                 HasSubstr("nearest at this size: 4"))));
  ASSERT_THAT(Violations(status), SizeIs(1));
  EXPECT_EQ(Violations(status)[0].field, "generation.auto_length.max_seconds");
  estimate.mutable_effective()->mutable_auto_length()->set_min_seconds(5);
  EXPECT_THAT(ShapeTooLarge(estimate), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 4 s do")));
  EXPECT_EQ(Violations(ShapeTooLarge(estimate))[0].field, "generation.width");
  estimate.mutable_nearest()->set_width(512);
  EXPECT_EQ(Violations(ShapeTooLarge(estimate))[0].field, "generation.width");
}

TEST(ShapeTooLarge, NamesTheSizeWhereNoLengthFits) {
  v1::Estimate estimate = TooLarge();
  estimate.mutable_nearest()->set_width(512);
  estimate.mutable_nearest()->set_height(256);
  estimate.mutable_nearest()->set_num_frames(257);
  const absl::Status status = ShapeTooLarge(estimate);
  ASSERT_THAT(Violations(status), SizeIs(2));
  EXPECT_EQ(Violations(status)[1].field, "generation.height");
  EXPECT_EQ(Violations(status)[1].description, "nearest: 256");
}

TEST(ShapeTooLarge, SaysWhereNothingFits) {
  const absl::Status status = ShapeTooLarge(TooLarge());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no size fits")));
  EXPECT_EQ(ErrorReason(status), "SHAPE_TOO_LARGE");
}

}  // namespace
}  // namespace kinora

#include "engine/model/duration_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "engine/weights/safetensors.h"
#include "tests/model/text_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

class DurationHeadOnABackend : public testing::TestWithParam<std::tuple<DType, TestedBackend>> {};

TEST_P(DurationHeadOnABackend, SecondsEqualTheReference) {
  const DType dtype = std::get<0>(GetParam());
  const TestedBackend on = std::get<1>(GetParam());
  Golden golden("duration_head");
  ModelRig rig(on, dtype);
  WeightLoader weights = rig.Open({.paths = {GoldenCheckpoint("duration_head")}});
  const DurationHeadConfig config = ParseDurationHeadConfig(golden.metadata("config")).value();
  const DurationHead head = DurationHead::Load(weights.Under("duration_head"), config).value();
  ASSERT_THAT(weights.Finish(), IsOk());
  const auto uploaded = [&](const char* name) {
    const Tensor given = golden.Get(name).As2D(), wide = rig.Upload(given), context = rig.Output(dtype, given.shape());
    rig.exec.ops.stream().Copy(wide, context);
    return context;
  };
  const Tensor video = uploaded("in.video"), audio = uploaded("in.audio");
  const auto near = [&](double seconds, const char* name) {
    const double expected = *golden.Get(name).data<float>();
    EXPECT_NEAR(seconds, expected, Tolerance(on, dtype) * expected) << name;
  };
  near(head.Seconds(rig.exec, {.video = video, .audio = audio}).value(), "out.seconds");
  near(head.Seconds(rig.exec, {.audio = audio}).value(), "out.seconds_of_sound");
}

INSTANTIATE_TEST_SUITE_P(All, DurationHeadOnABackend,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(DTypeName(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
                         });

TEST(DurationHeadConfig, AbsentFieldsAreTheReleasedOnes) {
  EXPECT_EQ(ParseDurationHeadConfig("{}").value(), DurationHeadConfig());
  EXPECT_THAT(ParseDurationHeadConfig(R"({"duration_head":{"num_pooler_heads":3}})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.duration_head.num_pooler_heads")));
}

}  // namespace
}  // namespace kinora

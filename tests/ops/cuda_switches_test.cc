#include "engine/ops/cuda_switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(CudaSwitches, AllIsOnUnlessAVariableSaysOtherwise) {
  EXPECT_THAT(ParseCudaSwitches("", ""), IsOkAndHolds(CudaSwitches{}));
  EXPECT_THAT(ParseCudaSwitches("", "0"), IsOkAndHolds(CudaSwitches{}));
  setenv(kCudaOffVariable, "graphs", 1);
  EXPECT_THAT(CudaSwitchesFromEnvironment(), IsOkAndHolds(CudaSwitches{.graphs = false}));
  unsetenv(kCudaOffVariable);
  EXPECT_THAT(CudaSwitchesFromEnvironment(), IsOkAndHolds(CudaSwitches{}));
}

TEST(CudaSwitches, EachNameSwitchesOneOff) {
  EXPECT_THAT(ParseCudaSwitches("graphs,early-launch,branch,cudnn,tuning", ""),
              IsOkAndHolds(CudaSwitches{
                  .graphs = false, .early_launch = false, .branch = false, .cudnn = false, .tuning = false}));
  for (const std::string_view name : CudaSwitchNames()) {
    KINORA_ASSERT_OK_AND_ASSIGN(const CudaSwitches one, ParseCudaSwitches(name, ""));
    EXPECT_EQ(!one.graphs + !one.early_launch + !one.branch + !one.cudnn + !one.tuning, 1) << name;
  }
}

TEST(CudaSwitches, GraphsCannotSynchronize) {
  EXPECT_THAT(ParseCudaSwitches("tuning", "1"),
              IsOkAndHolds(CudaSwitches{.graphs = false, .tuning = false, .synchronize = true}));
}

TEST(CudaSwitches, WrongValuesNameTheVariable) {
  EXPECT_THAT(ParseCudaSwitches("graph", ""), StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("KINORA_CUDA_OFF: \"graph\" is none of graphs, ")));
  EXPECT_THAT(ParseCudaSwitches("", "yes"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("KINORA_CUDA_SYNCHRONIZE: must be 0 or 1")));
}

}  // namespace
}  // namespace kinora

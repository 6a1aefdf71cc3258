#include "engine/ops/cuda_switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Sets a variable of the environment for one scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

TEST(CudaSwitches, AllIsOnUnlessAVariableSaysOtherwise) {
  EXPECT_THAT(ReadCudaSwitches({}), IsOkAndHolds(CudaSwitches{}));
  {
    const Variable off(kCudaOffVariable, "graphs"), synchronize(kCudaSynchronizeVariable, "0");
    EXPECT_THAT(ReadCudaSwitches({}), IsOkAndHolds(CudaSwitches{.graphs = false}));
  }
  EXPECT_THAT(ReadCudaSwitches({}), IsOkAndHolds(CudaSwitches{}));
}

TEST(CudaSwitches, EachNameSwitchesOneOff) {
  EXPECT_THAT(ParseCudaOff("cuda-off", "graphs,early-launch,branch,cudnn,tuning"),
              IsOkAndHolds(CudaSwitches{
                  .graphs = false, .early_launch = false, .branch = false, .cudnn = false, .tuning = false}));
  for (const std::string_view name : CudaSwitchNames()) {
    KINORA_ASSERT_OK_AND_ASSIGN(const CudaSwitches one, ParseCudaOff("cuda-off", name));
    EXPECT_EQ(!one.graphs + !one.early_launch + !one.branch + !one.cudnn + !one.tuning, 1) << name;
  }
}

TEST(CudaSwitches, AFlagWinsOverItsVariableAndLeavesTheOther) {
  const Variable off(kCudaOffVariable, "tuning"), synchronize(kCudaSynchronizeVariable, "1");
  EXPECT_THAT(ReadCudaSwitches({.off = CudaSwitches{.branch = false}}),
              IsOkAndHolds(CudaSwitches{.graphs = false, .branch = false, .synchronize = true}));
  EXPECT_THAT(ReadCudaSwitches({.synchronize = false}), IsOkAndHolds(CudaSwitches{.tuning = false}));
  EXPECT_THAT(ReadCudaSwitches({.off = CudaSwitches{}, .synchronize = false}), IsOkAndHolds(CudaSwitches{}));
}

TEST(CudaSwitches, GraphsCannotSynchronize) {
  EXPECT_THAT(ReadCudaSwitches({.off = CudaSwitches{.tuning = false}, .synchronize = true}),
              IsOkAndHolds(CudaSwitches{.graphs = false, .tuning = false, .synchronize = true}));
}

TEST(CudaSwitches, WrongValuesNameTheFlagOrTheVariable) {
  EXPECT_THAT(ParseCudaOff("cuda-off", "graph"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "cuda-off: \"graph\" is none of graphs, early-launch, branch, cudnn, tuning"));
  const Variable off(kCudaOffVariable, "branch,graph"), synchronize(kCudaSynchronizeVariable, "yes");
  EXPECT_THAT(ReadCudaSwitches({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("KINORA_CUDA_OFF: \"graph\" is none of graphs, ")));
  EXPECT_THAT(ReadCudaSwitches({.off = CudaSwitches{}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("KINORA_CUDA_SYNCHRONIZE: must be 0 or 1")));
}

}  // namespace
}  // namespace kinora

#include "server/worker/model_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/config.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

v1::WorkerConfig OnTheCpu() {
  v1::WorkerConfig config = DefaultWorkerConfig();
  config.add_model("m");
  config.set_device("cpu");
  return config;
}

TEST(ModelOptions, SwitchesOfTheCudaBackendComeFromTheFieldsThatAreSet) {
  v1::WorkerConfig config = OnTheCpu();
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelOptions none, ReadModelOptions(config));
  EXPECT_EQ(none.pipeline.cuda.off, std::nullopt);
  EXPECT_EQ(none.pipeline.cuda.synchronize, std::nullopt);
  config.set_cuda_off("graphs,cudnn");
  config.set_cuda_synchronize(false);
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelOptions some, ReadModelOptions(config));
  EXPECT_EQ(some.pipeline.cuda.off, (CudaSwitches{.graphs = false, .cudnn = false}));
  EXPECT_EQ(some.pipeline.cuda.synchronize, false);
}

TEST(ModelOptions, AnUnknownPartOfTheCudaBackendNamesTheFieldAndThePartsThatThereAre) {
  v1::WorkerConfig config = OnTheCpu();
  config.set_cuda_off("graph");
  EXPECT_THAT(ReadModelOptions(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "cuda_off: \"graph\" is none of graphs, early-launch, branch, cudnn, tuning"));
}

}  // namespace
}  // namespace kinora

// The CUDA backend's branch on the simulated device: any order of streams, and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/cuda/cuda_stream.h"
#include "tests/parallel/chains.h"
#include "tests/simt/control.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

class CudaConcurrentlyTest : public testing::Test {
 protected:
  CudaConcurrentlyTest()
      : backend_(*OpenBackend("cuda", {})),
        arena_(*backend_->Allocate(1 << 20, "a test")),
        host_(*backend_->AllocateHost(1 << 16, "a test")) {}
  ~CudaConcurrentlyTest() override { simt::Seed(1); }
  Stream& stream() { return backend_->ops().stream(); }
  std::vector<float> Read(const Tensor& t) {
    std::vector<float> values(t.elements());
    stream().CopyToHost(t, values.data());
    EXPECT_THAT(stream().Synchronize(), IsOk());
    return values;
  }

  const std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  const std::unique_ptr<Backend> backend_;
  Arena arena_, host_;
  Exec exec_{.backend = *backend_, .arena = arena_, .host = host_, .mesh = *mesh_};
};

TEST_F(CudaConcurrentlyTest, AnyOrderThatTheGraphAllowsGivesTheSame) {
  const Chains chains(exec_);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto graph, stream().Capture([&] { chains.Run(exec_); }));
  for (uint64_t seed = 0; seed < 30; ++seed) {
    simt::Seed(seed, /*random_order=*/seed > 0);
    exec_.ops.Fill(1.0f, chains.x);
    graph->Replay();
    graph->Replay();
    EXPECT_THAT(Read(chains.x), testing::Each(0.0625f * 0.0625f)) << seed;
  }
}

// Otherwise ranks could make their calls in different orders, and replays would not count them.
TEST_F(CudaConcurrentlyTest, ABranchTakesNoCollectives) {
  const auto count = [](Exec& e) { static_cast<CudaStream&>(e.ops.stream()).AtEachRun([] {}); };
  const auto nothing = [](Exec&) {};
  KINORA_ASSERT_OK_AND_ASSIGN(const auto graph, stream().Capture([&] { Concurrently(exec_, count, nothing); }));
  EXPECT_DEATH(stream().Capture([&] { Concurrently(exec_, nothing, count); }).IgnoreError(),
               "a collective, on a branch");
  EXPECT_THAT(stream().Capture([&] { Concurrently(exec_, count, nothing); }).status(), IsOk());
}

TEST_F(CudaConcurrentlyTest, AFailureOfEitherSideIsTheCapturesAndTheNextOneIsWhole) {
  const Chains chains(exec_);
  const auto capture = [&] { return stream().Capture([&] { chains.Round(exec_); }); };
  const std::pair<const char*, int> calls[] = {{"kernel", 10}, {"cudaEventRecord", 2}, {"cudaStreamWaitEvent", 2}};
  for (const auto& [call, times] : calls) {
    for (int after = 0; after < times; ++after) {
      ASSERT_THAT(stream().Synchronize(), IsOk());
      simt::FailCall(call, cudaErrorInvalidConfiguration, after);
      EXPECT_THAT(capture().status(), StatusIs(absl::StatusCode::kInternal)) << call << " after " << after;
      exec_.ops.Fill(1.0f, chains.x);
      KINORA_ASSERT_OK_AND_ASSIGN(const auto graph, capture());
      graph->Replay();
      EXPECT_THAT(Read(chains.x), testing::Each(Chains::kRound)) << call << " after " << after;
    }
  }
}

}  // namespace
}  // namespace kinora

// The cache of cuDNN's plans: its limit, what it drops, and how long work holds a plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/cuda/cudnn_plans.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

constexpr int64_t kEach = 1000;  // more than a refusal takes

// Plans that count themselves. Shapes of 0 queries are refused. Each build waits until `together` builds have begun.
class CountingCudnn : public Cudnn {
 public:
  struct Counts {
    std::atomic<int> built = 0, alive = 0;
    int together = 1;
    bool were_together = true;
    std::mutex mu;
    std::condition_variable begun;
  };
  explicit CountingCudnn(Counts& counts) : counts_(counts) {}

  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnAttention& shape) override { return Make(shape.queries); }
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnConvolution& shape) override {
    return Make(shape.frames);
  }

 private:
  class Plan : public CudnnPlan {
   public:
    explicit Plan(Counts& counts) : counts_(counts) { ++counts_.alive; }
    ~Plan() override { --counts_.alive; }
    int64_t workspace_bytes() const override { return 0; }
    int64_t memory_bytes() const override { return kEach; }
    std::string engine() const override { return ""; }
    absl::Status Run(absl::Span<void* const>, void*, cudaStream_t) const override { return absl::OkStatus(); }

   private:
    Counts& counts_;
  };
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Make(int64_t extent) {
    std::unique_lock lock(counts_.mu);
    ++counts_.built;
    counts_.begun.notify_all();
    if (!counts_.begun.wait_for(lock, std::chrono::seconds(20), [&] { return counts_.built >= counts_.together; })) {
      counts_.were_together = false;
    }
    if (extent == 0) return absl::UnimplementedError("no engine");
    return std::make_unique<Plan>(counts_);
  }

  Counts& counts_;
};

class CudnnPlanCache : public testing::Test {
 protected:
  CudnnPlans::Plan Of(int64_t queries) { return *plans_.For(CudnnAttention{.queries = queries}); }
  int BuildsFor(int64_t queries) {
    const int before = counts_.built;
    Of(queries);
    return counts_.built - before;
  }

  CountingCudnn::Counts counts_;
  CudnnPlans plans_{std::make_unique<CountingCudnn>(counts_), /*most_bytes=*/3 * kEach};
};

TEST_F(CudnnPlanCache, BuildsAPlanPerShapeOnce) {
  const CudnnPlans::Plan first = Of(1);
  EXPECT_EQ(Of(1), first);
  EXPECT_NE(*plans_.For(CudnnConvolution{.frames = 1}), first);
  EXPECT_EQ(counts_.built, 2);
  EXPECT_EQ(plans_.bytes(), 2 * kEach);
}

TEST_F(CudnnPlanCache, DropsThePlansThatWereNotUsedForLongest) {
  for (const int64_t queries : {1, 2, 3, 1}) Of(queries);
  Of(4);  // instead of 2
  EXPECT_EQ(counts_.alive, 3);
  EXPECT_EQ(plans_.bytes(), 3 * kEach);
  EXPECT_EQ(BuildsFor(1), 0);
  EXPECT_EQ(BuildsFor(3), 0);
  EXPECT_EQ(BuildsFor(4), 0);
  EXPECT_EQ(BuildsFor(2), 1);
}

TEST_F(CudnnPlanCache, KeepsPlansThatOthersHoldAndCountsThem) {
  std::vector<CudnnPlans::Plan> held = {Of(1), Of(2)};
  for (const int64_t queries : {3, 4, 5}) Of(queries);
  EXPECT_EQ(counts_.alive, 3);  // 1, 2 and 5
  EXPECT_EQ(BuildsFor(1), 0);
  held.push_back(Of(6));
  held.push_back(Of(7));
  EXPECT_EQ(counts_.alive, 4);
  EXPECT_EQ(plans_.bytes(), 4 * kEach);
  held.clear();
  Of(8);
  EXPECT_EQ(counts_.alive, 3);
  EXPECT_EQ(plans_.bytes(), 3 * kEach);
}

TEST_F(CudnnPlanCache, ReturnsAPlanThatIsLargerThanItsLimit) {
  CudnnPlans plans(std::make_unique<CountingCudnn>(counts_), kEach / 2);
  EXPECT_THAT(plans.For(CudnnAttention{.queries = 1}), IsOk());
  EXPECT_THAT(plans.For(CudnnAttention{.queries = 2}), IsOk());
  EXPECT_EQ(plans.size(), 1u);
}

TEST_F(CudnnPlanCache, RemembersRefusalsAndCountsThem) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(plans_.For(CudnnConvolution{}), StatusIs(absl::StatusCode::kUnimplemented, "no engine"));
  }
  EXPECT_EQ(counts_.built, 1);
  EXPECT_GT(plans_.bytes(), 0);
  for (const int64_t queries : {1, 2, 3}) Of(queries);
  EXPECT_EQ(plans_.bytes(), 3 * kEach);
}

TEST_F(CudnnPlanCache, BuildsWhatIsMissingOnAllThreads) {
  Of(1);
  ThreadPool threads(2);
  counts_.together = 3;
  plans_.Build({CudnnAttention{.queries = 1}, CudnnAttention{.queries = 2}, CudnnConvolution{}}, threads);
  EXPECT_TRUE(counts_.were_together);
  EXPECT_EQ(counts_.built, 3);
  EXPECT_EQ(BuildsFor(2), 0);
  EXPECT_THAT(plans_.For(CudnnConvolution{}), StatusIs(absl::StatusCode::kUnimplemented, "no engine"));
  EXPECT_EQ(counts_.built, 3);
}

TEST_F(CudnnPlanCache, KeepsItsLimitWhenItBuildsMany) {
  ThreadPool threads(3);
  std::set<CudnnPlans::Shape> shapes;
  for (int64_t queries = 1; queries <= 10; ++queries) shapes.insert(CudnnAttention{.queries = queries});
  plans_.Build(shapes, threads);
  EXPECT_EQ(counts_.built, 10);
  EXPECT_EQ(counts_.alive, 3);
}

}  // namespace
}  // namespace kinora

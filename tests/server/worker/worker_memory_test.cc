// The memory that a worker plans on the simulated device.
#include "server/worker/worker_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/worker/join_rendezvous.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(WorkerMemory, HalfOfWhatARankLeavesOfTheHostIsForCleanWeights) {
  EXPECT_EQ(CleanHostBytes(64 * kGiB, 1, 0), 32 * kGiB);
  EXPECT_EQ(CleanHostBytes(64 * kGiB, 8, 2 * kGiB), 3 * kGiB);
  EXPECT_EQ(CleanHostBytes(64 * kGiB, 8, 9 * kGiB), 0);
}

TEST(WorkerMemory, CleanWeightsHaveTheRestOfADeviceAndOfTheSharedHostMemory) {
  PipelineOptions options{.device = "cuda", .precision = *Precision::Parse("bf16")};
  options.files.paths = {KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = KINORA_SOURCE_DIR "/models/tiny/gemma";
  JoinRendezvous rendezvous([](const v1::WorkerMessage&) {});
  AbortSignal lost;
  std::vector<std::unique_ptr<Mesh>> meshes;
  meshes.push_back(Mesh::Single());
  const ModelRanks ranks(std::move(meshes), {.rendezvous = rendezvous, .lost = lost});
  ASSERT_THAT(PlanWorkerMemory(ranks, 1, options), IsOk());
  EXPECT_GT(options.clean_weights.device_bytes, 0);
  EXPECT_LT(options.clean_weights.device_bytes, 80 * kGiB);
  EXPECT_GT(options.clean_weights.host_bytes, 0);

  PipelineOptions less = options;
  JoinRendezvous other([](const v1::WorkerMessage&) {});
  meshes.clear();
  meshes.push_back(Mesh::Single());
  const ModelRanks half(std::move(meshes), {.rendezvous = other, .lost = lost});
  less.lora_cache = std::make_shared<FactorCache>(kGiB);
  ASSERT_THAT(PlanWorkerMemory(half, 0.5, less), IsOk());
  EXPECT_LT(less.clean_weights.host_bytes, options.clean_weights.host_bytes / 2);
}

}  // namespace
}  // namespace kinora

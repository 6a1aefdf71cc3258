#include "engine/ops/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/dry_backend.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(Backend, IsOpenedByNameAndTheDefaultIsTheBestThatIsUsable) {
  const absl::StatusOr<std::string> device = DeviceName("cuda", {});
  const bool simulated = device.ok() && device->find("simulated") == 0;  // used only on request
  const std::string best = device.ok() && !simulated ? "cuda" : "cpu";
  for (const std::string name : {"cpu", ""}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, OpenBackend(name, {.threads = 2}));
    EXPECT_EQ(backend->traits().device, name.empty() ? best : name);
    EXPECT_EQ(backend->traits().unified_memory, backend->traits().device == "cpu");
    EXPECT_GT(backend->usable_memory().bytes, 0);
    KINORA_ASSERT_OK_AND_ASSIGN(const BackendTraits traits, TraitsOf(name, {.threads = 2}));
    EXPECT_EQ(traits.device, backend->traits().device);
    EXPECT_EQ(traits.workspace_bytes, backend->traits().workspace_bytes);
  }
  EXPECT_EQ(*DeviceName("", {.threads = 1}), *DeviceName(best, {.threads = 1}));
  EXPECT_THAT(*DeviceName("cpu", {.threads = 1}), testing::MatchesRegex("cpu \\(.*, 1 thread\\)"));
}

TEST(Backend, WhatThisBuildLacksAndWhatNobodyKnowsNamesTheField) {
  const auto each = [](const char* name, const auto& matcher) {
    EXPECT_THAT(OpenBackend(name, {}).status(), matcher);
    EXPECT_THAT(DeviceName(name, {}).status(), matcher);
  };
  if (absl::IsUnimplemented(DeviceName("cuda", {}).status())) {
    each("cuda", StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("device: cuda: not available in this build")));
  }
  EXPECT_THAT(TraitsOf("cuda", {}), IsOk());  // plans may be made for devices of other machines
  EXPECT_THAT(TraitsOf("tpu", {}).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device: tpu")));
  each("tpu", StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device: tpu: cpu or cuda is needed")));
}

TEST(Backend, HostThreadsDoEachTaskOnce) {
  KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, OpenBackend("cpu", {.threads = 3}));
  std::vector<int> done(1000);
  backend->RunOnHost(1000, [&](int64_t task) { ++done[task]; });
  EXPECT_THAT(done, testing::Each(1));
}

// A plan reserves host memory besides the device's arena unless memory is unified.
TEST(DryBackend, ReservesAHostSideWhereMemoriesAreApart) {
  BackendTraits traits = *TraitsOf("cpu", {});
  for (const bool unified : {true, false}) {
    traits.unified_memory = unified;
    DryBackend backend(traits);
    Arena host = Arena::Dry();
    ArenaScope scope(host);
    backend.ops().stream().HostSide(Tensor(DType::kF32, {16, 4}, nullptr), scope);
    EXPECT_EQ(host.used(), unified ? 0 : 256);
  }
}

}  // namespace
}  // namespace kinora

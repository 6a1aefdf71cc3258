// Two processes on one (simulated) device: each sees the memory that the other leaves free, and works if it is enough.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "tests/simt/control.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class PixelSum : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor& rgb8) override {
    for (int64_t i = 0; i < rgb8.elements(); ++i) hash_ = (hash_ ^ rgb8.data<uint8_t>()[i]) * 0x100000001b3ull;
    return absl::OkStatus();
  }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
  std::string text() const { return absl::StrCat("pixels ", hash_); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ull;
};

GenerationRequest Request() {
  GenerationRequest request{.prompt = "a red ball", .width = 64, .height = 64, .num_frames = 9};
  request.recipe = Recipe::kOneStage;
  request.seed = 7;
  request.num_inference_steps = 2;
  return request;
}

PipelineOptions Options() {
  PipelineOptions options{.device = "cuda"};
  options.files.paths = {KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = KINORA_SOURCE_DIR "/models/tiny/gemma";
  options.text_cache_bytes = 0;  // allocated when prompts arrive
  return options;
}

absl::StatusOr<std::unique_ptr<Pipeline>> Load(const Mesh& mesh) {
  PipelineOptions options = Options();
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, Pipeline::Plan(options, mesh, Request()));
  options.arena_bytes = plan.arena_bytes;
  options.host_arena_bytes = plan.host_arena_bytes;
  return Pipeline::Load(options, mesh);
}

absl::StatusOr<std::string> Render(Pipeline& pipeline) {
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(Request()));
  PixelSum sink;
  KINORA_RETURN_IF_ERROR(pipeline.Generate(plan, &sink, nullptr));
  return sink.text();
}

int64_t Free() {
  size_t free_bytes = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  return static_cast<int64_t>(free_bytes);
}

// Runs as the second process of the tests below. Exits without releasing memory.
TEST(SecondProcess, DISABLED_LoadsAndRenders) {
  const auto mesh = Mesh::Single();
  auto pipeline = Load(*mesh);
  const absl::StatusOr<std::string> rendered = pipeline.ok() ? Render(**pipeline) : pipeline.status();
  std::printf("%s\n", rendered.ok() ? rendered->c_str() : rendered.status().ToString().c_str());
  std::fflush(stdout);
  _exit(rendered.ok() ? 0 : 1);
}

ProcessResult RunSecond() {
  return RunProcess({"/proc/self/exe", "--gtest_filter=SecondProcess.*", "--gtest_also_run_disabled_tests"});
}

class SharedDevice : public testing::Test {
 protected:
  static void SetUpTestSuite() {  // before the device is first used
    directory_ = new TemporaryDirectory;
    setenv("KINORA_SIMULATED_MEMORY_FILE", directory_->File("device").c_str(), 1);
  }
  static void TearDownTestSuite() { delete directory_; }
  void SetUp() override {
    const auto plan = Pipeline::Plan(Options(), *mesh_, Request());
    ASSERT_THAT(plan, IsOk());
    needed_ = plan->device_bytes();
  }
  static void SetMemory(int64_t bytes) {
    simt::SetDevice(simt::Model::kH100, bytes);
    setenv("KINORA_SIMULATED_MEMORY", absl::StrCat(bytes).c_str(), 1);
  }

  static TemporaryDirectory* directory_;
  const std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  int64_t needed_ = 0;  // by one process
};
TemporaryDirectory* SharedDevice::directory_ = nullptr;

TEST_F(SharedDevice, TheSecondIsToldWhatIsFreeAndFitsOnceTheFirstHasGone) {
  SetMemory(needed_ + needed_ / 2);
  KINORA_ASSERT_OK_AND_ASSIGN(auto pipeline, Load(*mesh_));
  const ProcessResult refused = RunSecond();
  EXPECT_EQ(refused.exit_status, 1) << refused.err;
  EXPECT_THAT(refused.out, testing::ContainsRegex("RESOURCE_EXHAUSTED: cannot reserve [0-9]+ bytes of device memory"));
  EXPECT_THAT(refused.out, HasSubstr(absl::StrCat(" of the device's ", needed_ + needed_ / 2, " are free")));
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string pixels, Render(*pipeline));
  pipeline.reset();
  const ProcessResult rendered = RunSecond();
  EXPECT_EQ(rendered.exit_status, 0) << rendered.err;
  EXPECT_THAT(rendered.out, HasSubstr(pixels));
}

TEST_F(SharedDevice, BothRenderWhereBothFit) {
  SetMemory(2 * needed_);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Load(*mesh_));
  const ProcessResult rendered = RunSecond();
  EXPECT_EQ(rendered.exit_status, 0) << rendered.out << rendered.err;
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string pixels, Render(*pipeline));
  EXPECT_THAT(rendered.out, HasSubstr(pixels));
}

TEST_F(SharedDevice, WhatAProcessHeldThatHasEndedIsFree) {
  SetMemory(2 * needed_);
  const int64_t before = Free();
  EXPECT_EQ(RunSecond().exit_status, 0);
  EXPECT_EQ(Free(), before);
}

}  // namespace
}  // namespace kinora

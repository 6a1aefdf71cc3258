// A whole run on a device whose memory the host cannot access (walled_backend.h). The result equals the CPU's bit for
// bit. If code above the backends accesses device memory other than by copies, this program crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/pipeline/pipeline.h"
#include "tests/testing/walled_backend.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Records all bytes of a clip and of its intermediate results.
class Recorder : public ClipSink, public RunObserver {
 public:
  explicit Recorder(bool intermediates) : intermediates_(intermediates) {}
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor& rgb8) override { return Add(rgb8); }
  absl::Status Audio(const Tensor& waveform) override { return Add(waveform); }
  absl::Status End() override { return absl::OkStatus(); }
  bool WantsIntermediates() const override { return intermediates_; }
  absl::Status FloatFrames(int64_t, const Tensor& rgb) override { return Add(rgb); }
  absl::Status Intermediate(std::string_view, const Tensor& value) override { return Add(value); }
  const std::string& bytes() const { return bytes_; }

 private:
  absl::Status Add(const Tensor& value) {
    bytes_.append(static_cast<const char*>(value.raw()), value.bytes());
    return absl::OkStatus();
  }

  const bool intermediates_;
  std::string bytes_;
};

PipelineOptions TinyOptions(DType precision) {
  const std::string tiny = KINORA_SOURCE_DIR "/models/tiny/";
  PipelineOptions options;
  options.files.paths = {tiny + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = tiny + "gemma";
  options.precision = precision;
  options.threads = 2;
  return options;
}

// Guided, to run all passes; two steps, to capture and replay one; several tiles in time.
GenerationRequest SmallRequest() {
  GenerationRequest request;
  request.prompt = "a red square moves";
  request.negative_prompt = "noise";
  request.width = request.height = 64;
  request.num_frames = 97;
  request.frame_rate = 24;
  request.recipe = Recipe::kOneStage;
  request.num_inference_steps = 2;
  request.seed = 7;
  return request;
}

absl::Status Render(bool walled, PipelineOptions options, const Mesh& mesh, Recorder& sink,
                    const GenerationRequest& request = SmallRequest()) {
  const BackendOptions backend_options{.threads = options.threads};
  KINORA_ASSIGN_OR_RETURN(const BackendTraits cpu, TraitsOf("cpu", backend_options));
  const BackendTraits traits = walled ? WalledTraits(backend_options) : cpu;
  KINORA_ASSIGN_OR_RETURN(const RunPlan cost, Pipeline::PlanOn(traits, options, mesh, request));
  if (mesh.world().rank() == 0) {
    EXPECT_EQ(cost.host_arena_bytes > 0, walled);
  }
  options.arena_bytes = cost.arena_bytes;
  options.host_arena_bytes = cost.host_arena_bytes;
  KINORA_ASSIGN_OR_RETURN(auto backend,
                          walled ? OpenWalledBackend(backend_options) : OpenBackend("cpu", backend_options));
  KINORA_ASSIGN_OR_RETURN(auto pipeline, Pipeline::LoadOn(std::move(backend), options, mesh));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
  KINORA_RETURN_IF_ERROR(pipeline->Generate(plan, mesh.world().rank() == 0 ? &sink : nullptr, &sink));
  EXPECT_LE(pipeline->peak_arena_bytes(), cost.arena_bytes);
  return absl::OkStatus();
}

TEST(WalledPipeline, ARunEqualsTheCpusToTheBit) {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    const bool intermediates = precision == DType::kF32;
    Recorder cpu(intermediates), walled(intermediates);
    const auto mesh = Mesh::Single();
    const absl::Status plain = Render(false, TinyOptions(precision), *mesh, cpu);
    ASSERT_TRUE(plain.ok()) << plain.ToString();
    const absl::Status status = Render(true, TinyOptions(precision), *mesh, walled);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_GT(cpu.bytes().size(), size_t{97 * 64 * 64 * 3});
    EXPECT_TRUE(walled.bytes() == cpu.bytes()) << DTypeName(precision);
  }
}

TEST(WalledPipeline, RanksThatAreThreadsReachEachOthersMemoryThroughTheirStreams) {
  Recorder alone(false);
  ASSERT_TRUE(Render(false, TinyOptions(DType::kBF16), *Mesh::Single(), alone).ok());
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.guidance = 2}}) {
    Recorder walled(false);
    const absl::Status status =
        RunThreadRanks(shape, [&](const Mesh& mesh) { return Render(true, TinyOptions(DType::kBF16), mesh, walled); });
    ASSERT_TRUE(status.ok()) << shape.ToString() << ": " << status.ToString();
    EXPECT_TRUE(walled.bytes() == alone.bytes()) << shape.ToString();
  }
}

// When the spans of this name began, in microseconds, in order.
std::vector<double> BeginsOf(const nlohmann::json& trace, std::string_view name) {
  std::vector<double> begins;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == name && event["ph"] == "X") begins.push_back(event["ts"]);
  }
  std::sort(begins.begin(), begins.end());
  return begins;
}

// In a recipe of two stages only the second may begin it, because the first is followed by another draw.
TEST(WalledPipeline, TheDecodersNoiseIsDrawnDuringTheLastDenoisingStage) {
  const std::string tiny = KINORA_SOURCE_DIR "/models/tiny-2.5";
  PipelineOptions options;
  options.files.paths = {tiny};
  options.files.video_vae = tiny + "/vae/ltx-2.5-tiny-video-vae.safetensors";
  options.files.kind = ModelFiles::Kind::kDistilled;
  options.precision = DType::kF32;
  options.threads = 2;
  GenerationRequest request{.prompt = "a red square moves", .width = 128, .height = 64, .num_frames = 9};
  request.frame_rate = 24;
  request.recipe = Recipe::kDistilledTwoStage;
  Recorder alone(true);
  ASSERT_TRUE(Render(false, options, *Mesh::Single(), alone, request).ok());
  for (const MeshShape& shape : {MeshShape{}, MeshShape{.tokens = 2}}) {
    Recorder walled(true);
    StartTrace();
    const absl::Status status =
        RunThreadRanks(shape, [&](const Mesh& mesh) { return Render(true, options, mesh, walled, request); });
    const auto trace = nlohmann::json::parse(StopTrace());
    ASSERT_TRUE(status.ok()) << shape.ToString() << ": " << status.ToString();
    EXPECT_TRUE(walled.bytes() == alone.bytes()) << shape.ToString();
    const std::vector<double> drawn = BeginsOf(trace, "draw_ahead"), ranks = BeginsOf(trace, "denoise_2");
    EXPECT_EQ(ranks.size(), static_cast<size_t>(shape.ranks()));
    ASSERT_EQ(drawn.size(), 1u) << "the clip has one tile";
    EXPECT_GT(drawn[0], ranks[0]) << shape.ToString();
    EXPECT_LT(drawn[0], BeginsOf(trace, "decode_video").at(0)) << shape.ToString();
  }
}

TEST(WalledPipeline, ARequestBeyondTheHostsSideIsRefused) {
  PipelineOptions options = TinyOptions(DType::kBF16);
  const auto mesh = Mesh::Single();
  const auto cost = Pipeline::PlanOn(WalledTraits({}), options, *mesh, SmallRequest());
  ASSERT_TRUE(cost.ok());
  options.arena_bytes = cost->arena_bytes;
  options.host_arena_bytes = cost->host_arena_bytes - 1;
  auto pipeline = Pipeline::LoadOn(*OpenWalledBackend({}), options, *mesh);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().ToString();
  Recorder never(false);
  const absl::Status status = (*pipeline)->Generate(*(*pipeline)->Prepare(SmallRequest()), &never, &never);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("host memory"));
}

}  // namespace
}  // namespace kinora

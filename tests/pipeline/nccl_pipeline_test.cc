// Whole renders by ranks that are processes with one simulated device each, connected by NCCL, including step graphs.
// The result equals one rank's bit for bit.
#include <gtest/gtest.h>

#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "engine/processes/nccl_communicator.h"
#include "tests/simt/control.h"
#include "tests/testing/forked_ranks.h"

namespace kinora {
namespace {

class ClipKeeper : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor& rgb8) override { return Keep(rgb8); }
  absl::Status Audio(const Tensor& samples) override { return Keep(samples); }
  absl::Status End() override { return absl::OkStatus(); }
  const std::string& bytes() const { return bytes_; }

 private:
  absl::Status Keep(const Tensor& x) {
    bytes_.append(static_cast<const char*>(x.raw()), x.bytes());
    return absl::OkStatus();
  }
  std::string bytes_;
};

struct Wanted {
  Recipe recipe = Recipe::kOneStage;
  Residence text_encoder = Residence::kResident;
};

absl::StatusOr<std::string> Render(const Mesh& mesh, const Wanted& wanted) {
  const std::string models = std::string(KINORA_SOURCE_DIR) + "/models/tiny/";
  PipelineOptions options{.device = "cuda", .text_encoder = wanted.text_encoder};
  options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = models + "gemma";
  GenerationRequest request{.prompt = "a red ball", .width = 64, .height = 64, .num_frames = 9};
  request.recipe = wanted.recipe;
  request.seed = 7;
  request.sigmas = {1, 0.75, 0.5, 0};  // the last two steps are replayed
  KINORA_ASSIGN_OR_RETURN(const RunPlan needed, Pipeline::Plan(options, mesh, request));
  options.arena_bytes = needed.arena_bytes;
  options.host_arena_bytes = needed.host_arena_bytes;
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Pipeline> pipeline, Pipeline::Load(options, mesh));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
  ClipKeeper clip;
  KINORA_RETURN_IF_ERROR(pipeline->Generate(plan, mesh.world().rank() == 0 ? &clip : nullptr, nullptr));
  if (pipeline->captures() == 0) return absl::InternalError("no step was captured");
  return clip.bytes();
}

absl::StatusOr<std::string> RankZerosClip(const MeshShape& shape, const Wanted& wanted = {}) {
  const auto results = RunForked(shape.ranks(), [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    simt::Seed(rank);
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeNcclMesh(shape, rank, rendezvous));
    absl::StatusOr<std::string> clip = Render(*mesh, wanted);
    if (!clip.ok()) mesh->Abort();
    return clip;
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << shape.ToString() << ": " << result.status();
  return results[0];
}

TEST(NcclPipeline, TokenAndGuidanceRanksRenderWhatOneDoes) {
  const auto one = RankZerosClip({});
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_GT(one->size(), 9u * 64 * 64 * 3);
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.guidance = 2}}) {
    const auto several = RankZerosClip(shape);
    ASSERT_TRUE(several.ok()) << several.status();
    EXPECT_TRUE(*several == *one) << shape.ToString();  // too large to print
  }
}

// With one pass, both ranks split tokens. Each rank loads the text layers that it holds.
TEST(NcclPipeline, GuidanceRanksWithAnEvictedTextEncoderMakeTheDistilledClipOfOneRank) {
  const auto one = RankZerosClip({}, {.recipe = Recipe::kDistilled});
  ASSERT_TRUE(one.ok()) << one.status();
  const auto two = RankZerosClip({.guidance = 2}, {.recipe = Recipe::kDistilled, .text_encoder = Residence::kEvicted});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_TRUE(*two == *one);
}

}  // namespace
}  // namespace kinora

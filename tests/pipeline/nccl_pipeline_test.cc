// Whole renders by ranks that are processes with one simulated device each, connected by NCCL, including step graphs.
// The result equals one rank's bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "engine/processes/nccl_communicator.h"
#include "tests/simt/control.h"
#include "tests/testing/forked_ranks.h"

namespace kinora {
namespace {

using testing::Each;

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

GenerationRequest RequestOf(const Wanted& wanted) {
  GenerationRequest request{.prompt = "a red ball", .width = 64, .height = 64, .num_frames = 9};
  request.recipe = wanted.recipe;
  request.seed = 7;
  request.sigmas = {1, 0.75, 0.5, 0};  // the last two steps are replayed
  return request;
}

absl::StatusOr<std::unique_ptr<Pipeline>> LoadFor(const Mesh& mesh, const GenerationRequest& request,
                                                  Residence text_encoder = Residence::kResident) {
  const std::string models = absl::StrCat(KINORA_SOURCE_DIR, "/models/tiny/");
  PipelineOptions options{.device = "cuda", .text_encoder = text_encoder};
  options.files.paths = {absl::StrCat(models, "ltx-2.3-tiny-dev.safetensors")};
  options.files.text_encoder = absl::StrCat(models, "gemma");
  KINORA_ASSIGN_OR_RETURN(const RunPlan needed, Pipeline::Plan(options, mesh, request));
  options.arena_bytes = needed.arena_bytes;
  options.host_arena_bytes = needed.host_arena_bytes;
  return Pipeline::Load(options, mesh);
}

absl::StatusOr<std::string> Generate(Pipeline& pipeline, const Mesh& mesh, const GenerationRequest& request,
                                     RunObserver* observer = nullptr) {
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(request));
  ClipKeeper clip;
  const bool first = mesh.world().rank() == 0;
  KINORA_RETURN_IF_ERROR(pipeline.Generate(plan, first ? &clip : nullptr, first ? observer : nullptr));
  return clip.bytes();
}

absl::StatusOr<std::string> Render(const Mesh& mesh, const Wanted& wanted) {
  const GenerationRequest request = RequestOf(wanted);
  KINORA_ASSIGN_OR_RETURN(const auto pipeline, LoadFor(mesh, request, wanted.text_encoder));
  KINORA_ASSIGN_OR_RETURN(std::string clip, Generate(*pipeline, mesh, request));
  if (pipeline->captures() == 0) return absl::InternalError("no step was captured");
  return clip;
}

// Runs `body` on the ranks of a mesh; every rank must succeed.
std::vector<std::string> OnRanks(const MeshShape& shape,
                                 const std::function<absl::StatusOr<std::string>(const Mesh& mesh)>& body) {
  const auto results = RunForked(shape.ranks(), [&](int rank, Rendezvous& rendezvous) -> absl::StatusOr<std::string> {
    simt::Seed(rank);
    KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeNcclMesh(shape, rank, rendezvous));
    absl::StatusOr<std::string> result = body(*mesh);
    if (!result.ok()) mesh->Abort();
    return result;
  });
  std::vector<std::string> values;
  for (const auto& result : results) {
    EXPECT_TRUE(result.ok()) << shape.ToString() << ": " << result.status();
    values.push_back(result.value_or(""));
  }
  return values;
}

std::string RankZerosClip(const MeshShape& shape, const Wanted& wanted = {}) {
  return OnRanks(shape, [&](const Mesh& mesh) { return Render(mesh, wanted); })[0];
}

TEST(NcclPipeline, TokenAndGuidanceRanksRenderWhatOneDoes) {
  const std::string one = RankZerosClip({});
  ASSERT_GT(one.size(), 9u * 64 * 64 * 3);
  for (const MeshShape& shape :
       {MeshShape{.tokens = 2}, MeshShape{.guidance = 2}, MeshShape{.guidance = 2, .tokens = 2}}) {
    EXPECT_TRUE(RankZerosClip(shape) == one) << shape.ToString();  // too large to print
  }
}

// With one pass, both ranks split tokens. Each rank loads the text layers that it holds.
TEST(NcclPipeline, GuidanceRanksWithAnEvictedTextEncoderMakeTheDistilledClipOfOneRank) {
  const std::string one = RankZerosClip({}, {.recipe = Recipe::kDistilled});
  EXPECT_TRUE(RankZerosClip({.guidance = 2}, {.recipe = Recipe::kDistilled, .text_encoder = Residence::kEvicted}) ==
              one);
}

GenerationRequest WithSteps(int steps) {
  GenerationRequest request = RequestOf({.recipe = Recipe::kDistilled});
  request.sigmas.clear();
  for (int i = 0; i <= steps; ++i) request.sigmas.push_back(1 - static_cast<float>(i) / static_cast<float>(steps));
  return request;
}

// Two more steps are two more graphs, and no more waits, on any rank.
TEST(NcclPipeline, BetweenStepsNoRanksHostWaitsForItsDevice) {
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.guidance = 2, .tokens = 2}}) {
    const auto counts = OnRanks(shape, [](const Mesh& mesh) -> absl::StatusOr<std::string> {
      KINORA_ASSIGN_OR_RETURN(const auto pipeline, LoadFor(mesh, WithSteps(5)));
      KINORA_RETURN_IF_ERROR(Generate(*pipeline, mesh, WithSteps(2)).status());  // captures
      simt::Counts of[2];
      for (int i = 0; i < 2; ++i) {
        simt::ResetCounts();
        KINORA_RETURN_IF_ERROR(Generate(*pipeline, mesh, WithSteps(3 + 2 * i)).status());
        of[i] = simt::Counted();
      }
      return absl::StrCat(of[1].graph_launches - of[0].graph_launches, " ",
                          of[1].synchronizations - of[0].synchronizations);
    });
    EXPECT_THAT(counts, Each("2 0")) << shape.ToString();
  }
}

// Calls `step` after each step of denoising.
class StepObserver : public RunObserver {
 public:
  explicit StepObserver(std::function<absl::Status(int step)> step) : step_(std::move(step)) {}
  absl::Status OnStep(const Progress& progress, const StepLatents*) override {
    return progress.stage.name() == "denoise" ? step_(progress.step) : absl::OkStatus();
  }

 private:
  const std::function<absl::Status(int step)> step_;
};

// Returns how many graphs a rank launched in a run that rank 0 cancels after step `last`.
absl::StatusOr<int64_t> GraphsOfCancelledRun(Pipeline& pipeline, const Mesh& mesh, const GenerationRequest& request,
                                             int last) {
  int reported = 0;
  StepObserver observer([&](int step) {
    reported = step;
    return step == last ? absl::CancelledError("enough") : absl::OkStatus();
  });
  simt::ResetCounts();
  const absl::Status ended = Generate(pipeline, mesh, request, &observer).status();
  if (!absl::IsCancelled(ended)) return absl::InternalError(absl::StrCat("not cancelled: ", ended.ToString()));
  if (mesh.world().rank() == 0 && (ended.message() != "enough" || reported != last)) {
    return absl::InternalError(absl::StrCat("step ", reported, " was reported: ", ended.ToString()));
  }
  return static_cast<int64_t>(simt::Counted().graph_launches);
}

TEST(NcclPipeline, ACancelEndsEveryRankAtOneStepAndTheNextRunIsWhole) {
  constexpr int kSteps = 5;
  const auto ends = OnRanks({.guidance = 2}, [&](const Mesh& mesh) -> absl::StatusOr<std::string> {
    const GenerationRequest request = WithSteps(kSteps);
    KINORA_ASSIGN_OR_RETURN(const auto pipeline, LoadFor(mesh, request));
    KINORA_ASSIGN_OR_RETURN(const std::string whole, Generate(*pipeline, mesh, request));
    std::string all;
    for (const int last : {1, 3, kSteps}) {
      KINORA_ASSIGN_OR_RETURN(const int64_t graphs, GraphsOfCancelledRun(*pipeline, mesh, request, last));
      if (graphs < last || graphs > std::min(last + 2, kSteps)) return absl::InternalError(absl::StrCat(graphs));
      absl::StrAppend(&all, graphs, " ");
    }
    KINORA_ASSIGN_OR_RETURN(const std::string next, Generate(*pipeline, mesh, request));
    if (next != whole) return absl::InternalError("the next run makes another clip");
    return all;
  });
  EXPECT_THAT(ends, Each(ends[0]));
}

}  // namespace
}  // namespace kinora

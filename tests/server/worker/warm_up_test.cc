// The warm-up of a worker on the simulated device.
#include "server/worker/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/worker/join_rendezvous.h"
#include "tests/simt/cudnn/control.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

TEST(WarmUp, BuildsThePlansOfTheUsualSizes) {
  simt::SetPlanBytes(1);  // so that none is dropped
  PipelineOptions options{.device = "cuda", .precision = *Precision::Parse("bf16"), .threads = 2};
  options.files.paths = {KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = KINORA_SOURCE_DIR "/models/tiny/gemma";
  GenerationRequest request{.prompt = "a boat"};
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan usual, Pipeline::Plan(options, *Mesh::Single(), request));
  options.arena_bytes = usual.arena_bytes;
  options.host_arena_bytes = usual.host_arena_bytes;
  JoinRendezvous rendezvous([](const v1::WorkerMessage&) {});
  AbortSignal lost;
  std::vector<std::unique_ptr<Mesh>> meshes;
  meshes.push_back(Mesh::Single());
  ModelRanks ranks(std::move(meshes), {.rendezvous = rendezvous, .lost = lost});
  ASSERT_THAT(ranks.Load(options, [](std::string_view) {}), IsOk());
  const ModelDescription model = ranks.pipeline().description();
  Speed speed;
  ASSERT_THAT(WarmUp(ranks, {.model = model, .arena_bytes = options.arena_bytes, .on_progress = [] {}}, speed), IsOk());

  const int64_t warm = simt::BuiltPlans();
  const auto do_ahead = [&] {
    KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, ranks.pipeline().Prepare(request));
    ranks.pipeline().DoAhead(plan);
  };
  do_ahead();
  EXPECT_EQ(simt::BuiltPlans(), warm);
  request.width = 2 * model.Find(model.default_recipe, "")->defaults.width;
  do_ahead();
  EXPECT_GT(simt::BuiltPlans(), warm);
}

}  // namespace
}  // namespace kinora

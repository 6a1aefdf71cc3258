// The engine as the worker's model, run on the tiny model.
#include "server/worker/pipeline_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/media/jpeg.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/stage_conversion.h"
#include "server/worker/join_rendezvous.h"
#include "server/worker/rank.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

// Returns the number of spans with this name in a trace from StopTrace.
int64_t SpansNamed(const std::string& trace, const std::string& name) {
  int64_t count = 0;
  const nlohmann::json parsed = nlohmann::json::parse(trace);
  for (const auto& event : parsed["traceEvents"]) count += event.value("name", "") == name;
  return count;
}

class PipelineModelTest : public testing::Test {
 protected:
  void SetUp() override {
    KINORA_ASSERT_OK_AND_ASSIGN(model_, Load(""));
    KINORA_ASSERT_OK_AND_ASSIGN(store_, DirectoryArtifactStore::At(directory_.File("artifacts")));
    run_.set_video_id("video");
    run_.set_attempt(1);
    run_.set_artifact_key("video/1");
    v1::Generation& g = *run_.mutable_generation();
    g = model_->Describe().model().defaults();
    g.set_prompt("a boat");
    g.set_width(64);
    g.set_height(64);
    g.set_num_frames(9);
    g.set_num_inference_steps(3);
    g.set_seed(7);
  }

  absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& ranks, bool untiled_decode = false) {
    v1::WorkerConfig config;
    config.set_untiled_decode(untiled_decode);
    config.add_model(KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors");
    config.add_model("text_encoder=" KINORA_SOURCE_DIR "/models/tiny/gemma");
    config.set_precision("bf16");
    config.set_device("cpu");
    config.set_threads(1);
    config.set_memory_share(1);
    config.set_ranks(ranks);
    return PipelineModel::Load(config, {.rendezvous = rendezvous_, .lost = lost_}, metrics_, [] {});
  }

  TemporaryDirectory directory_;
  prometheus::Registry registry_;
  WorkerMetrics metrics_{registry_};
  JoinRendezvous rendezvous_{[](const v1::WorkerMessage&) {}};
  AbortSignal lost_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DirectoryArtifactStore> store_;
  v1::Run run_;
  std::vector<v1::WorkerMessage> sent_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> units_done_ = 0;
};

TEST_F(PipelineModelTest, AJobIsPlannedOnceHoweverMuchIsSaidOfIt) {
  const RunContext context{.model = *model_,
                           .metrics = metrics_,
                           .send = [this](const v1::WorkerMessage& message) { sent_.push_back(message); },
                           .cancelled = cancelled_,
                           .units_done = units_done_};
  StartTrace();
  const v1::RunResult result = LeadingRank(*store_).Run(context, run_);
  const std::string trace = StopTrace();
  ASSERT_EQ(result.error().message(), "");
  EXPECT_EQ(SpansNamed(trace, "dry_run"), 1);
  std::vector<std::string> stages;
  double denoise_seconds = 0;
  for (const v1::WorkerMessage& message : sent_) {
    if (!message.has_stage()) continue;
    stages.emplace_back(StageOf(message.stage()).name());
    if (stages.back() == "denoise") denoise_seconds = message.stage().expected_seconds();
  }
  EXPECT_THAT(stages, testing::ElementsAre("encode", "denoise", "decode_video", "decode_audio", "finalize"));
  EXPECT_GT(denoise_seconds, 0);
  ASSERT_TRUE(sent_[0].has_resolved());
  const v1::Resolved& resolved = sent_[0].resolved().resolved();
  EXPECT_EQ(resolved.tile_plan(), "untiled");
  ASSERT_EQ(resolved.stages_size(), 1);
  EXPECT_EQ(resolved.stages(0).num_frames(), 9);
  EXPECT_EQ(resolved.stages(0).sigmas_size(), 4);
}

TEST_F(PipelineModelTest, AWorkerThatDecodesWithoutTilesSaysSo) {
  run_.mutable_generation()->set_num_frames(97);
  const auto tile_plan = [this]() -> absl::StatusOr<std::string> {
    KINORA_ASSIGN_OR_RETURN(const PreparedRun run, model_->Prepare(run_.generation()));
    return model_->Resolve(run).tile_plan();
  };
  EXPECT_THAT(tile_plan(), IsOkAndHolds("frames=80/24,height=64,width=64"));
  EXPECT_FALSE(model_->Describe().untiled_decode());
  KINORA_ASSERT_OK_AND_ASSIGN(model_, Load("", /*untiled_decode=*/true));
  EXPECT_THAT(tile_plan(), IsOkAndHolds("untiled"));
  EXPECT_TRUE(model_->Describe().untiled_decode());
  KINORA_ASSERT_OK_AND_ASSIGN(PreparedRun run, model_->Prepare(run_.generation()));
  run.plan.arena_bytes = std::numeric_limits<int64_t>::max() / 2;
  const v1::Estimate estimate = model_->Estimate(run);
  EXPECT_FALSE(estimate.fits());
  EXPECT_THAT(estimate.problems(), testing::Contains(testing::HasSubstr("--untiled-decode")));
}

// Returns the steps of the previews that a run sent. Checks that each is a JPEG with the clip's proportions.
std::vector<int> PreviewSteps(const std::vector<v1::WorkerMessage>& sent) {
  std::vector<int> steps;
  for (const v1::WorkerMessage& message : sent) {
    if (!message.has_preview()) continue;
    const v1::Preview& preview = message.preview().preview();
    const auto picture = DecodeJpeg(preview.image(), 384);
    EXPECT_THAT(picture, IsOk());
    if (picture.ok()) {
      EXPECT_EQ(std::pair(picture->width, picture->height), std::pair(int64_t{64}, int64_t{96}));
    }
    EXPECT_EQ(preview.media_type(), "image/jpeg");
    EXPECT_EQ(preview.stage(), "denoise");
    EXPECT_EQ(message.preview().video_id(), "video");
    steps.push_back(preview.step());
  }
  return steps;
}

TEST_F(PipelineModelTest, PreviewsComeAfterEverySoManyStepsOnAnyMesh) {
  const std::string cache = directory_.File("cache");
  ASSERT_EQ(setenv("XDG_CACHE_HOME", cache.c_str(), 1), 0);
  run_.mutable_generation()->set_height(96);
  run_.mutable_output()->set_preview_every_steps(2);
  run_.mutable_generation()->set_num_inference_steps(5);
  std::vector<std::string> pictures;
  for (const char* ranks : {"", "tokens=2"}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto model, Load(ranks));
    sent_.clear();
    const RunContext context{.model = *model,
                             .metrics = metrics_,
                             .send = [this](const v1::WorkerMessage& message) { sent_.push_back(message); },
                             .cancelled = cancelled_,
                             .units_done = units_done_};
    ASSERT_EQ(LeadingRank(*store_).Run(context, run_).error().message(), "");
    EXPECT_THAT(PreviewSteps(sent_), testing::ElementsAre(2, 4));
    for (const v1::WorkerMessage& message : sent_) {
      if (message.has_preview()) pictures.push_back(message.preview().preview().image());
    }
  }
  ASSERT_EQ(pictures.size(), 4u);
  EXPECT_NE(pictures[0], pictures[1]);
  EXPECT_TRUE(pictures[0] == pictures[2] && pictures[1] == pictures[3]);  // bit for bit equal on any number of ranks
}

TEST_F(PipelineModelTest, WhatPreviewsAreMadeByIsFittedOnceAndAgainWhereItIsDamaged) {
  const std::string cache = directory_.File("cache");
  ASSERT_EQ(setenv("XDG_CACHE_HOME", cache.c_str(), 1), 0);
  EXPECT_FALSE(std::filesystem::exists(cache));  // nobody has requested previews
  ASSERT_THAT(model_->PreparePreviews(&absl::OkStatus), IsOk());
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(cache + "/kinora/previews")) files.push_back(file.path());
  ASSERT_EQ(files.size(), 1u);
  const std::string kept = ReadFile(files[0]);
  std::filesystem::remove_all(cache);
  ASSERT_THAT(model_->PreparePreviews(&absl::OkStatus), IsOk());
  EXPECT_FALSE(std::filesystem::exists(cache));  // kept in memory
  std::filesystem::create_directories(cache + "/kinora/previews");
  std::ofstream(files[0]) << "damaged";
  KINORA_ASSERT_OK_AND_ASSIGN(const auto next, Load(""));
  ASSERT_THAT(next->PreparePreviews(&absl::OkStatus), IsOk());
  EXPECT_EQ(ReadFile(files[0]), kept);
}

TEST_F(PipelineModelTest, ARunThatIsTracedHasItsTraceAsASecondArtifactAndTheNextOneHasNone) {
  const RunContext context{.model = *model_,
                           .metrics = metrics_,
                           .send = [](const v1::WorkerMessage&) {},
                           .cancelled = cancelled_,
                           .units_done = units_done_};
  run_.mutable_output()->set_trace(true);
  const v1::RunResult result = LeadingRank(*store_).Run(context, run_);
  ASSERT_EQ(result.error().message(), "");
  ASSERT_EQ(result.artifacts_size(), 2);
  const v1::Artifact& artifact = result.artifacts(1);
  EXPECT_EQ(artifact.id(), "trace.json");
  EXPECT_EQ(artifact.media_type(), "application/json");
  const std::string trace = ReadFile(directory_.File("artifacts/video/1/trace.json"));
  EXPECT_EQ(artifact.bytes(), static_cast<int64_t>(trace.size()));
  for (const char* stage : {"encode", "denoise", "decode_video", "decode_audio"}) {
    EXPECT_EQ(SpansNamed(trace, stage), 1) << stage;
  }
  EXPECT_FALSE(Tracing());

  run_.mutable_output()->set_trace(false);
  run_.set_artifact_key("video/2");
  EXPECT_EQ(LeadingRank(*store_).Run(context, run_).artifacts_size(), 1);
}

TEST_F(PipelineModelTest, AnEstimateIsPlannedOnce) {
  StartTrace();
  KINORA_ASSERT_OK_AND_ASSIGN(const PreparedRun run, model_->Prepare(run_.generation()));
  const v1::Estimate estimate = model_->Estimate(run);
  EXPECT_EQ(SpansNamed(StopTrace(), "dry_run"), 1);
  EXPECT_TRUE(estimate.fits());
  EXPECT_EQ(estimate.flops(), run.plan.flops());
  EXPECT_EQ(estimate.device_bytes(), run.plan.device_bytes());
  EXPECT_GT(estimate.seconds(), 0);
  EXPECT_EQ(estimate.problems_size(), 0);
}

prometheus::MetricFamily FamilyNamed(const prometheus::Registry& registry, const std::string& name) {
  for (prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name == name) return std::move(family);
  }
  return {};
}

// Calls, waits and bytes of a collective in the metrics.
struct Heard {
  uint64_t calls = 0, waits = 0;
  double bytes = 0;
};
Heard HeardOf(const prometheus::Registry& registry, const std::string& axis) {
  Heard heard;
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const auto& label : metric.label) {
        if (label.name != "axis" || label.value != axis) continue;
        if (family.name == "kinora_collective_seconds") heard.calls += metric.histogram.sample_count;
        if (family.name == "kinora_collective_wait_seconds") heard.waits += metric.histogram.sample_count;
        if (family.name == "kinora_collective_bytes_total") heard.bytes += metric.counter.value;
      }
    }
  }
  return heard;
}

TEST_F(PipelineModelTest, TheRanksCollectivesAreInTheMetrics) {
  EXPECT_EQ(HeardOf(registry_, "tokens").calls, 0u);
  KINORA_ASSERT_OK_AND_ASSIGN(model_, Load("tokens=2"));  // warms up
  const Heard tokens = HeardOf(registry_, "tokens");
  EXPECT_GT(tokens.calls, 0u);
  EXPECT_EQ(tokens.waits, tokens.calls);
  EXPECT_GT(tokens.bytes, 0);
  EXPECT_EQ(HeardOf(registry_, "tensor").calls, 0u);
}

TEST_F(PipelineModelTest, EachRanksWaitsAndIdlenessOfARunAreInTheMetrics) {
  KINORA_ASSERT_OK_AND_ASSIGN(model_, Load("tokens=2"));
  const auto skews = [this](const std::string& stage) -> uint64_t {
    const auto family = FamilyNamed(registry_, "kinora_rank_skew_seconds");
    for (const auto& metric : family.metric) {
      if (metric.label[0].value == stage) return metric.histogram.sample_count;
    }
    return 0;
  };
  const RunContext context{.model = *model_,
                           .metrics = metrics_,
                           .send = [](const v1::WorkerMessage&) {},
                           .cancelled = cancelled_,
                           .units_done = units_done_};
  EXPECT_EQ(skews("denoise"), 0u);  // the warm-up's do not count
  ASSERT_EQ(LeadingRank(*store_).Run(context, run_).error().message(), "");
  for (const char* stage : {"encode", "denoise", "decode_video", "decode_audio"}) EXPECT_EQ(skews(stage), 2u) << stage;
  std::map<std::string, double> idle;  // by rank
  for (const auto& metric : FamilyNamed(registry_, "kinora_device_idle_ratio").metric) {
    idle[metric.label[0].value] = metric.gauge.value;
  }
  EXPECT_THAT(idle, testing::ElementsAre(testing::Pair("0", testing::AllOf(testing::Gt(0), testing::Lt(1))),
                                         testing::Pair("1", testing::AllOf(testing::Gt(0), testing::Lt(1)))));
}

TEST_F(PipelineModelTest, ARequestBeyondTheReservedMemorySaysSo) {
  PreparedRun run = *model_->Prepare(run_.generation());
  run.plan.arena_bytes = std::numeric_limits<int64_t>::max() / 2;
  const v1::Estimate estimate = model_->Estimate(run);
  EXPECT_FALSE(estimate.fits());
  ASSERT_EQ(estimate.problems_size(), 1);
  EXPECT_THAT(estimate.problems(0), testing::HasSubstr("GiB for activations, "));
  EXPECT_EQ(estimate.nearest().width(), run.plan.request.width);
  EXPECT_GT(estimate.nearest().num_frames(), run.plan.request.num_frames);  // the request itself fits
}

}  // namespace
}  // namespace kinora

// The trace of a whole run as a viewer reads it: the FLOPs of its products add up to the plan's, spans are nested, and
// every track has a name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/parallel/thread_communicator.h"
#include "engine/pipeline/pipeline.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

class NoSink : public ClipSink {  // keeps nothing
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
};

using Events = std::vector<nlohmann::json>;

struct Traced {
  Events events;
  std::vector<double> flops;  // per rank, from its plan
};

// Traces the last of `runs` runs of one loaded pipeline; later runs replay graphs captured by the first. With several
// ranks `runs` must be 1, since they start the trace together.
Traced TraceLastRun(const MeshShape& shape, int runs) {
  const std::string models = std::string(KINORA_SOURCE_DIR "/models/tiny/");
  GenerationRequest request{.prompt = "a boat", .width = 64, .height = 64, .num_frames = 9, .frame_rate = 24};
  request.recipe = Recipe::kOneStage;
  request.num_inference_steps = 3;
  Traced traced;
  traced.flops.resize(shape.ranks());
  const auto run = [&](const Mesh& mesh) -> absl::Status {
    PipelineOptions options;
    options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
    options.files.text_encoder = models + "gemma";
    options.precision = DType::kF32;
    options.text_cache_bytes = 0;  // every run encodes its prompts
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, Pipeline::PlanWithin({int64_t{1} << 40, ""}, mesh, request, options));
    KINORA_ASSIGN_OR_RETURN(const auto pipeline, Pipeline::Load(options, mesh));
    traced.flops[mesh.world().rank()] = plan.flops();
    NoSink sink;
    for (int i = 1; i <= runs; ++i) {
      if (runs > 1 && i == runs) StartTrace();
      KINORA_RETURN_IF_ERROR(pipeline->Generate(plan, mesh.world().rank() == 0 ? &sink : nullptr, nullptr));
    }
    return absl::OkStatus();
  };
  if (runs == 1) StartTrace();
  EXPECT_THAT(RunThreadRanks(shape, run), IsOk());
  traced.events = nlohmann::json::parse(StopTrace())["traceEvents"].get<Events>();
  return traced;
}

void ExpectWorkOfThePlan(const Traced& traced) {
  std::vector<int64_t> flop(traced.flops.size(), 0);
  std::map<std::string, int64_t> seen;
  for (const auto& event : traced.events) {
    const std::string name = event["name"];
    if (name != "Matmul" && name != "Conv" && name != "Attention" && name != "AttentionChunks") {
      EXPECT_FALSE(event.contains("args") && event["args"].contains("flop")) << event;
      continue;
    }
    ASSERT_TRUE(event.contains("args")) << event;
    const nlohmann::json& args = event["args"];
    const int64_t product = 2 * args.at("m").get<int64_t>() * args.at("n").get<int64_t>() * args.at("k").get<int64_t>();
    EXPECT_EQ(args.at("flop"), name.starts_with("Attention") ? 2 * product : product) << event;
    flop[event["pid"].get<int>() - 1] += args["flop"].get<int64_t>();
    ++seen[name];
    if (args.contains("passes")) {
      ++seen[args["passes"]];
      if (args.contains("block")) ++seen["block " + std::to_string(args["block"].get<int>())];
    }
  }
  for (const char* what : {"Matmul", "Conv", "Attention", "block 0", "block 1"}) EXPECT_GT(seen[what], 0) << what;
  for (size_t rank = 0; rank < flop.size(); ++rank) {
    EXPECT_EQ(static_cast<double>(flop[rank]), traced.flops[rank]) << rank;
  }
}

// Two spans of a lane are disjoint or nested, except for the format's rounding of a nanosecond.
void ExpectSpansNest(const Events& events) {
  using Lane = std::vector<std::pair<int64_t, int64_t>>;  // begin and end, ns
  std::map<int, Lane> lanes;
  for (const auto& event : events) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"], took = event["dur"];
    const auto nanoseconds = [](double microseconds) { return std::llround(microseconds * 1000); };
    EXPECT_GE(begin, 0);
    lanes[event["tid"]].emplace_back(nanoseconds(begin), nanoseconds(begin) + nanoseconds(took));
  }
  for (auto& [lane, spans] : lanes) {
    std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    Lane around;
    for (const auto& span : spans) {
      while (!around.empty() && around.back().second <= span.first) around.pop_back();
      if (!around.empty()) {
        EXPECT_LE(span.second, around.back().second + 1) << "in lane " << lane;
      }
      around.push_back(span);
    }
  }
}

void ExpectEveryTrackHasAName(const Events& events) {
  std::set<int> processes, threads;
  std::set<std::string> names;
  for (const auto& event : events) {
    if (event["name"] == "process_name") processes.insert(event["pid"].get<int>());
    if (event["name"] == "thread_name") threads.insert(event["tid"].get<int>());
  }
  for (const auto& event : events) {
    EXPECT_TRUE(processes.contains(event["pid"]) && threads.contains(event["tid"])) << event;
    if (event["ph"] == "X") names.insert(event["name"]);
  }
  EXPECT_LT(names.size(), 50u);  // names are categories, without numbers
}

// The model's STG block is block 1, so the STG pass shares block 0 with the conditional pass.
void ExpectBlocksNameTheirPasses(const Events& events) {
  for (const auto& event : events) {
    if (!event.contains("args") || !event["args"].contains("block") || !event["args"].contains("passes")) continue;
    const bool shared = event["args"]["block"] == 0;
    EXPECT_EQ(event["args"]["passes"], shared ? "uncond,cond,isolated" : "uncond,cond,perturbed,isolated") << event;
  }
}

TEST(RunTrace, AddsUpToThePlanAndNestsInReplaysToo) {
  const Traced traced = TraceLastRun({}, /*runs=*/2);
  ExpectWorkOfThePlan(traced);
  ExpectSpansNest(traced.events);
  ExpectEveryTrackHasAName(traced.events);
  ExpectBlocksNameTheirPasses(traced.events);
  std::vector<int64_t> steps;
  for (const auto& event : traced.events) {
    if (event["name"] == "step") steps.push_back(event["args"]["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3}));
}

TEST(RunTrace, AddsUpToEachRanksPlan) {
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.tensor = 2}, MeshShape{.guidance = 2}}) {
    SCOPED_TRACE(shape.ToString());
    const Traced traced = TraceLastRun(shape, /*runs=*/1);
    ExpectWorkOfThePlan(traced);
    ExpectSpansNest(traced.events);
    ExpectEveryTrackHasAName(traced.events);
  }
}

}  // namespace
}  // namespace kinora

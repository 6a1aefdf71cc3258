#include "engine/base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <source_location>
#include <thread>

#include "engine/tensor/cpu_stream.h"
#include "tests/testing/allocations.h"

namespace kinora {
namespace {

nlohmann::json Events(const std::string& category) {
  nlohmann::json out = nlohmann::json::array();
  const nlohmann::json trace = nlohmann::json::parse(StopTrace());
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == category) out.push_back(event);
  }
  return out;
}

void EnqueuesAddition(CpuStream& stream, int* sum) {
  stream.Enqueue([sum] { ++*sum; });
}

TEST(TraceTest, NothingIsKeptBeforeTheStart) {
  { TraceSpan span("stage", "early"); }
  StartTrace();
  EXPECT_TRUE(Events("stage").empty());
}

TEST(TraceTest, SpansNestByTimeAndThreadsHaveLanes) {
  StartTrace();
  {
    TraceSpan outer("stage", "outer \"quoted\"");
    TraceSpan inner("stage", "inner");
    std::thread([] { TraceSpan span("stage", "elsewhere"); }).join();
  }
  const nlohmann::json events = Events("stage");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["name"], "elsewhere");
  EXPECT_EQ(events[1]["name"], "inner");
  EXPECT_EQ(events[2]["name"], "outer \"quoted\"");
  EXPECT_NE(events[0]["tid"], events[1]["tid"]);
  EXPECT_EQ(events[1]["tid"], events[2]["tid"]);
  EXPECT_LE(events[2]["ts"], events[1]["ts"]);
  const double outer_end = events[2]["ts"].get<double>() + events[2]["dur"].get<double>();
  EXPECT_GE(outer_end, events[1]["ts"].get<double>() + events[1]["dur"].get<double>());
}

TEST(TraceTest, EveryRankHasATrackAndThoseOfOtherProcessesCountFromTheSameMoment) {
  StartTrace();
  { TraceSpan span("stage", "before the fork"); }
  std::string track = StopTrack(TraceStart() - absl::Seconds(100));  // as if from an earlier process
  StartTrace();
  AddTrack(track);
  std::thread([] {
    SetTraceRank(3);
    TraceSpan span("stage", "three");
  }).join();
  { TraceSpan span("stage", "zero"); }
  const nlohmann::json trace = nlohmann::json::parse(StopTrace());
  std::map<std::string, std::pair<int, double>> spans;  // name -> (rank, begin)
  std::map<int, std::string> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event["ph"] == "X") spans[event["name"]] = {event["pid"], event["ts"]};
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{1, "rank 0"}, {4, "rank 3"}}));  // viewers use 0 for the idle process
  EXPECT_EQ(spans["three"].first, 4);
  EXPECT_EQ(spans["zero"].first, 1);
  EXPECT_LT(spans["zero"].second, 1e6);
  EXPECT_GE(spans["before the fork"].second, 100e6);
}

TEST(TraceTest, ThreadsHaveNamesAndNumbersOfTheirOwnInAllProcesses) {
  StartTrace();
  { TraceSpan span("stage", "on rank 0"); }
  std::thread([] {
    SetTraceRank(2);
    TraceSpan span("stage", "on rank 2");
  }).join();
  const nlohmann::json trace = nlohmann::json::parse(StopTrace());
  std::map<int, std::string> names;
  std::map<std::string, int> lanes;
  for (const auto& event : trace.at("traceEvents")) {
    if (event["ph"] == "X") lanes[event["name"]] = event["tid"];
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  }
  EXPECT_NE(lanes["on rank 0"], lanes["on rank 2"]);
  EXPECT_EQ(names[lanes["on rank 2"]], "pipeline");
  EXPECT_EQ(names[lanes["on rank 0"]].rfind("thread ", 0), 0u) << "nobody has named it";
}

TEST(TraceTest, AnOpSaysItsWorkAndWhereItWasEnqueuedAlsoInAReplay) {
  CpuStream stream;
  const auto enqueue = [&stream] {
    const InTracePlace forward({.passes = TraceText(std::string("uncond") + ",cond")});
    const InTracePlace block({.block = 7});
    stream.Enqueue([] {}, "Product", {.m = 2, .n = 3, .k = 5, .flop = 60});
  };
  auto graph = stream.Capture(enqueue);
  ASSERT_TRUE(graph.ok());
  StartTrace();
  enqueue();
  (*graph)->Replay();
  stream.Enqueue([] {}, "Elsewhere");
  const nlohmann::json events = Events("op");
  ASSERT_EQ(events.size(), 3u);
  const nlohmann::json expected = {{"m", 2}, {"n", 3}, {"k", 5}, {"flop", 60}, {"block", 7}, {"passes", "uncond,cond"}};
  EXPECT_EQ(events[0]["args"], expected);
  EXPECT_EQ(events[1]["args"], expected);
  EXPECT_FALSE(events[2].contains("args"));
}

TEST(TraceTest, OffItAllocatesNothing) {
  CpuStream stream;
  const InTracePlace place({.block = 7});
  const int64_t before = AllocationsOfThisThread();
  for (int i = 0; i < 100; ++i) {
    stream.Enqueue([] {}, "Product", {.m = 2, .n = 3, .k = 5, .flop = 60});
    AddTraceSpan("step", "step", absl::UnixEpoch(), absl::UnixEpoch(), {.step = i});
  }
  EXPECT_EQ(AllocationsOfThisThread(), before);
}

TEST(TraceTest, OpsAreNamedByTheFunctionThatEnqueuedThemAlsoInAReplay) {
  CpuStream stream;
  int sum = 0;
  auto graph = stream.Capture([&] { EnqueuesAddition(stream, &sum); });
  ASSERT_TRUE(graph.ok());
  StartTrace();
  EnqueuesAddition(stream, &sum);
  (*graph)->Replay();
  const nlohmann::json events = Events("op");
  EXPECT_EQ(sum, 2);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["name"], "EnqueuesAddition");
  EXPECT_EQ(events[1]["name"], "EnqueuesAddition");
}

}  // namespace
}  // namespace kinora

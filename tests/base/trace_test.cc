#include "engine/base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <source_location>
#include <thread>

#include "engine/tensor/cpu_stream.h"

namespace kinora {
namespace {

nlohmann::json Events(const std::string& category) {
  nlohmann::json out = nlohmann::json::array();
  const nlohmann::json trace = nlohmann::json::parse(StopTrace());
  EXPECT_EQ(trace.at("droppedSpans"), 0);
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

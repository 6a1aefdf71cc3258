#include "engine/parallel/gather_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/processes/peer_links.h"
#include "engine/processes/socket_mesh.h"
#include "tests/testing/forked_ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

// Rank r has r + 1 spans, which exceed its arena.
absl::StatusOr<std::string> Trace(int rank, const std::string& key, Rendezvous& rendezvous) {
  const MeshShape shape{.tokens = 3};
  KINORA_ASSIGN_OR_RETURN(const auto links, PeerLinks::Open(rank, {.key = key}, rendezvous));
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeSocketMesh(shape, rank, *links));
  KINORA_ASSIGN_OR_RETURN(const auto backend, OpenBackend("cpu", {}));
  KINORA_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(rank == 1 ? 1024 : 4096));
  Arena arena(std::move(memory));
  Exec exec{.backend = *backend, .arena = arena, .host = arena, .mesh = *mesh};
  StartTrace();
  SetTraceRank(rank);
  for (int i = 0; i <= rank; ++i) {
    const std::string name = std::to_string(i) + std::string(5000, static_cast<char>('a' + rank));
    const TraceSpan span("stage", name.c_str());
  }
  KINORA_RETURN_IF_ERROR(GatherTrace(exec));
  return Tracing() ? StopTrace() : "";
}

TEST(GatherTrace, RankZeroHasTheSpansOfAllThoughTheyAreLongerThanTheArena) {
  const std::string key = DrawGroupKey();
  const auto traces = RunForked(3, [&](int rank, Rendezvous& rendezvous) { return Trace(rank, key, rendezvous); });
  EXPECT_THAT(traces[1], IsOkAndHolds(""));
  EXPECT_THAT(traces[2], IsOkAndHolds(""));
  ASSERT_THAT(traces[0], IsOk());
  std::map<int, std::vector<std::string>> spans;
  const auto trace = nlohmann::json::parse(*traces[0]);
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "stage") spans[event["pid"].get<int>() - 1].push_back(event["name"]);
  }
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(spans[rank].size(), static_cast<size_t>(rank + 1));
    EXPECT_EQ(spans[rank].back(), std::to_string(rank) + std::string(5000, static_cast<char>('a' + rank)));
  }
}

}  // namespace
}  // namespace kinora

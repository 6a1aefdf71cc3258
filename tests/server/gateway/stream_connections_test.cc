#include "server/gateway/stream_connections.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/server/gateway/scripted_frontend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using Watch = std::shared_ptr<ReplyReader<v1::VideoEvent>>;

TEST(StreamConnectionsTest, OpensAnotherConnectionWhenAllAreFull) {
  int opened = 0;
  StreamConnections connections([&opened] {
    ++opened;
    return grpc::CreateChannel("unix:/nowhere", grpc::InsecureChannelCredentials());
  });
  std::vector<StreamConnections::Lease> leases(size_t{2} * StreamConnections::kMostStreams);
  for (StreamConnections::Lease& lease : leases) lease = connections.Take();
  EXPECT_EQ(opened, 2);
  EXPECT_EQ(leases.front().get(), leases[StreamConnections::kMostStreams - 1].get());
  EXPECT_NE(leases.front().get(), leases.back().get());
  leases.erase(leases.begin());
  leases.push_back(connections.Take());
  EXPECT_EQ(opened, 2) << "a released place is used again";
  leases.push_back(connections.Take());
  EXPECT_EQ(opened, 3);
}

// A connection takes 128 calls; without further ones the last watches and everything after them would wait for ever.
TEST(StreamConnectionsTest, ManyWatchesLeaveRoomForOtherCalls) {
  ScriptedFrontend frontend;
  frontend.AddJob("job", 1);
  const std::unique_ptr<FrontendClient> client = frontend.Connect();
  v1::WatchVideoRequest request;
  request.set_id("job");
  std::vector<Watch> watches;
  for (int i = 0; i < 300; ++i) {
    watches.push_back(client->WatchVideo({}, request));
    const auto event = WaitFor<std::optional<v1::VideoEvent>>([&](auto done) { watches.back()->Next(done); });
    ASSERT_TRUE(event.ok() && event->has_value() && (*event)->has_snapshot()) << i;
  }
  const auto video = WaitFor<v1::Video>([&](auto done) { client->GetVideo({}, "job", done); });
  EXPECT_THAT(video, IsOk());
  for (const Watch& watch : watches) watch->Cancel();
  watches.clear();  // the client's destructor waits until gRPC has let go of them
}

}  // namespace
}  // namespace kinora

// Calls that are begun and dropped, over and over (CVE-2023-44487): a process of its own is attacked and measured.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/grpc_status.h"
#include "tests/testing/http2_flood.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr int64_t kMegabyte = 1'000'000;
constexpr int64_t kCalls = 200'000;  // of one connection

class CallFloodTest : public testing::Test {
 protected:
  CallFloodTest()
      : frontend_({KINORA_FRONTEND_BINARY, "--state-directory=" + directory_.File("state"), "--address=127.0.0.1:0",
                   "--http-address=", "--drain-grace-seconds=0"}) {
    std::string log;
    size_t at;
    while ((at = (log = frontend_.ErrSoFar()).find(" port=")) == std::string::npos) std::this_thread::yield();
    address_ = absl::StrCat("127.0.0.1:", std::stoi(log.substr(at + 6)));
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }

  absl::Status List() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::ListVideosResponse reply;
    return FromGrpcStatus(v1::VideoGeneration::NewStub(channel_)->ListVideos(&context, {}, &reply));
  }

  TemporaryDirectory directory_;
  Subprocess frontend_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(CallFloodTest, ConnectionsThatDropCallsAreCutAndLeaveNothing) {
  ASSERT_THAT(List(), IsOk());
  const int64_t before = ResidentBytes(frontend_.pid());
  int64_t sent = 0;
  constexpr int kConnections = 5;
  for (int i = 0; i < kConnections; ++i) {
    // A method that waits for a message, and one that does not exist.
    const char* method = i % 2 == 0 ? "/kinora.v1.VideoGeneration/GetVideo" : "/no.Such/Method";
    Http2Flood flood(address_);
    const int64_t calls = flood.DropCalls(method, kCalls, absl::Seconds(20));
    EXPECT_FALSE(flood.connected()) << calls;
    sent += calls;
  }
  const absl::Time asked = absl::Now();
  absl::Status served = List();
  for (int i = 0; i < 100 && absl::IsResourceExhausted(served); ++i) served = List();
  EXPECT_THAT(served, IsOk());
  const absl::Duration answered = absl::Now() - asked;
  const int64_t peak = PeakResidentBytes(frontend_.pid()) - before;
  const int64_t after = ResidentBytes(frontend_.pid()) - before;
  std::printf(
      "%d connections, %ld calls begun and dropped; resident %.0f MB before, %.0f MB more at the peak, "
      "%.0f MB more after; a call was answered after %.3f s\n",
      kConnections, sent, before / 1e6, peak / 1e6, after / 1e6, absl::ToDoubleSeconds(answered));
#if defined(__SANITIZE_ADDRESS__)
  constexpr int64_t kMost = 1000 * kMegabyte;  // it keeps 256 MB of what is freed, and more beside each allocation
#else
  constexpr int64_t kMost = 400 * kMegabyte;  // 3985 MB before
#endif
  EXPECT_LT(peak, kMost);
  EXPECT_LT(answered, absl::Seconds(2));  // 7 s before connections were cut
  EXPECT_THAT(frontend_.ErrSoFar(), testing::HasSubstr("reason=overdone"));
}

// As many as a client that ends may drop.
TEST_F(CallFloodTest, AClientThatDropsAFewHundredCallsIsNot) {
  Http2Flood flood(address_);
  EXPECT_EQ(flood.DropCalls("/kinora.v1.VideoGeneration/GetVideo", 500, absl::Seconds(20)), 500);
  // While they are dropped, more than 32 messages may be awaited: then the client tries again.
  absl::Status served = List();
  for (int i = 0; i < 100 && absl::IsResourceExhausted(served); ++i) served = List();
  EXPECT_THAT(served, IsOk());
  EXPECT_TRUE(flood.connected());
  EXPECT_THAT(frontend_.ErrSoFar(), testing::Not(testing::HasSubstr("reason=overdone")));
}

}  // namespace
}  // namespace kinora

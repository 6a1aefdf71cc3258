// Calls that are started and cancelled repeatedly (CVE-2023-44487) against a separate process, whose memory is
// measured.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/net/grpc_status.h"
#include "tests/testing/http2_flood.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr int64_t kMegabyte = 1'000'000;
constexpr int64_t kCalls = 200'000;  // per connection

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
    // A method that waits for a message, or one that does not exist.
    const char* method = i % 2 == 0 ? "/kinora.v1.VideoGeneration/GetVideo" : "/no.Such/Method";
    Http2Flood flood(address_);
    const int64_t calls = flood.DropCalls(method, kCalls, absl::Seconds(20));
    EXPECT_FALSE(flood.connected()) << calls;
    sent += calls;
  }
  absl::Status served = List();
  for (int i = 0; i < 100 && absl::IsResourceExhausted(served); ++i) served = List();
  EXPECT_THAT(served, IsOk());
  const int64_t peak = PeakResidentBytes(frontend_.pid()) - before;
  const int64_t after = ResidentBytes(frontend_.pid()) - before;
  std::printf(
      "%d connections, %ld calls begun and dropped; resident %.0f MB before, %.0f MB more at the peak, "
      "%.0f MB more after\n",
      kConnections, sent, before / 1e6, peak / 1e6, after / 1e6);
#if defined(__SANITIZE_ADDRESS__)
  constexpr int64_t kMost = 1000 * kMegabyte;  // it keeps 256 MB of freed memory, and more per allocation
#else
  constexpr int64_t kMost = 400 * kMegabyte;  // 3985 MB before the fix
#endif
  EXPECT_LT(peak, kMost);
  EXPECT_THAT(frontend_.ErrSoFar(), testing::HasSubstr("reason=overdone"));
}

// As many calls as an exiting client may cancel.
TEST_F(CallFloodTest, AClientThatDropsAFewHundredCallsIsNot) {
  Http2Flood flood(address_);
  EXPECT_EQ(flood.DropCalls("/kinora.v1.VideoGeneration/GetVideo", 500, absl::Seconds(20)), 500);
  // Meanwhile more than 32 messages may be pending; then the client retries.
  absl::Status served = List();
  for (int i = 0; i < 100 && absl::IsResourceExhausted(served); ++i) served = List();
  EXPECT_THAT(served, IsOk());
  EXPECT_TRUE(flood.connected());
  EXPECT_THAT(frontend_.ErrSoFar(), testing::Not(testing::HasSubstr("reason=overdone")));
}

}  // namespace
}  // namespace kinora

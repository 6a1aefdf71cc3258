// Memory that a client can make a frontend hold with unfinished messages, measured in a separate process.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/net/grpc_status.h"
#include "tests/testing/http2_flood.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";
constexpr char kGetVideo[] = "/kinora.v1.VideoGeneration/GetVideo";
constexpr int64_t kMegabyte = 1'000'000;

class CallMemory : public testing::Test {
 protected:
  void Serve(bool with_tokens, std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments = {KINORA_FRONTEND_BINARY, "--state-directory=" + directory_.File("state"),
                                          "--address=" + address_, "--http-address=", "--drain-grace-seconds=0"};
    if (with_tokens) {
      WriteFile(directory_.File("tokens"), kToken);
      ASSERT_EQ(chmod(directory_.File("tokens").c_str(), 0600), 0);
      arguments.push_back("--token-file=" + directory_.File("tokens"));
    }
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    frontend_.emplace(arguments);
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
    ASSERT_THAT(List(), IsOk()) << frontend_->ErrSoFar();
  }

  absl::Status List() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    context.AddMetadata("authorization", absl::StrCat("Bearer ", kToken));
    v1::ListVideosResponse reply;
    return FromGrpcStatus(v1::VideoGeneration::NewStub(channel_)->ListVideos(&context, {}, &reply));
  }

  // Sanitizers keep freed memory; with them the floods only show that nothing breaks.
  static void ExpectLess(int64_t growth, int64_t limit, const char* what) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(growth, limit) << what;
#endif
    (void)growth, (void)limit, (void)what;
  }

  // Returns the peak growth of the process while connections flood it in turn. All stay open to the end.
  int64_t Growth(const char* what, const FloodOptions& options, int connections = 2) {
    const int64_t before = ResidentBytes(frontend_->pid());
    std::vector<std::unique_ptr<Http2Flood>> floods;
    int64_t sent = 0;
    for (int i = 0; i < connections; ++i) {
      floods.push_back(std::make_unique<Http2Flood>(address_));
      floods.back()->Run(options);
      sent += floods.back()->bytes_sent();
    }
    const int64_t growth = PeakResidentBytes(frontend_->pid()) - before;
    std::printf("%s: %d connections, %.0f MB sent; resident %.0f MB before, %.0f MB more at the peak\n", what,
                connections, sent / 1e6, before / 1e6, growth / 1e6);
    // An authorised client is served meanwhile. At max_call_memory_bytes, gRPC closes connections with UNAVAILABLE to
    // free memory; then the client retries.
    absl::Status served = List();
    for (int i = 0; i < 10 && absl::IsUnavailable(served); ++i) served = List();
    EXPECT_THAT(served, IsOk());
    EXPECT_THAT(RawCall(channel_, "/grpc.health.v1.Health/Check", ""), IsOkAndHolds(std::string("\x08\x01")));
    return growth;
  }

  TemporaryDirectory directory_;
  const std::string address_ = "unix:" + directory_.File("api.sock");
  std::optional<Subprocess> frontend_;
  std::shared_ptr<grpc::Channel> channel_;
};

FloodOptions ManyMessages(const char* method) {
  return {.method = method, .streams = 250, .announced_bytes = 4 << 20, .sent_bytes = 4 * kMegabyte};
}

TEST_F(CallMemory, WithoutATokenNoMessageIsRead) {
  Serve(/*with_tokens=*/true);
  const char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  for (const char* method : {kGetVideo, "/kinora.v1.VideoGeneration/UploadInput", kReflection}) {
    ExpectLess(Growth(method, ManyMessages(method)), 64 * kMegabyte, method);
  }
  // 1500 calls were rejected within seconds. Each line but the first includes the number of calls that it stands for.
  const std::string log = frontend_->ErrSoFar();
  EXPECT_THAT(log, HasSubstr("event=call_refused peer=unix:"));
  EXPECT_THAT(log, HasSubstr("method=/kinora.v1.VideoGeneration/GetVideo code=UNAUTHENTICATED"));
  EXPECT_THAT(log, ContainsRegex("not_logged=[1-9]"));
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 60);
}

// Health needs no token. Its callers can send little in the time that they have.
TEST_F(CallMemory, AHealthCheckThatNeverEndsIsCutOff) {
  Serve(/*with_tokens=*/true);
  const char kCheck[] = "/grpc.health.v1.Health/Check";
  ExpectLess(Growth("health", ManyMessages(kCheck)), 128 * kMegabyte, "250 checks");
  const FloodOptions long_message = {.method = kCheck, .announced_bytes = 0xFFFFFFFF, .sent_bytes = 2000 * kMegabyte};
  Serve(/*with_tokens=*/true);  // a new process, without freed memory
  ExpectLess(Growth("health, one long message", long_message, /*connections=*/1), 512 * kMegabyte, "a long check");
}

// A client with access can have at most 32 messages in transit; max_call_memory_bytes bounds their total size.
TEST_F(CallMemory, MessagesOnTheWayAreBoundedInNumberAndInSum) {
  Serve(/*with_tokens=*/false, {"--max-call-memory-bytes=67108864"});
  ExpectLess(Growth("many messages", ManyMessages(kGetVideo)), 192 * kMegabyte, "many messages");
  const FloodOptions long_message = {
      .method = kGetVideo, .announced_bytes = 0xFFFFFFFF, .sent_bytes = 1000 * kMegabyte};
  Serve(/*with_tokens=*/false, {"--max-call-memory-bytes=67108864"});
  ExpectLess(Growth("one long message", long_message), 192 * kMegabyte, "a long message");
}

// gRPC logs a line for each compressed call before its token is checked.
TEST_F(CallMemory, WhatGrpcSaysItselfIsALineInASecond) {
  Serve(/*with_tokens=*/true);
  const auto stub = v1::VideoGeneration::NewStub(channel_);
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    v1::GetVideoRequest request;
    request.set_id(std::string(1000, 'x'));
    v1::Video video;
    EXPECT_EQ(stub->GetVideo(&context, request, &video).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  const std::string log = frontend_->ErrSoFar();
  EXPECT_THAT(log, HasSubstr("event=grpc says=\"Compression algorithm 'gzip' is disabled.\""));
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 30);
}

}  // namespace
}  // namespace kinora

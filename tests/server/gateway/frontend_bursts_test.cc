// Bursts at a complete frontend over TCP, which accepts 32 calls whose message it has not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "server/gateway/frontend_client.h"
#include "server/gateway/gateway.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/server/gateway/http_connection.h"

namespace kinora {
namespace {

using testing::IsEmpty;
using testing::StartsWith;

class FrontendBurstsTest : public FrontendTest {
 protected:
  FrontendBurstsTest() {
    Start();
    worker_ = StartWorker();
    job_ = Create(Request())->id();
  }
  std::string Address() const { return absl::StrCat("127.0.0.1:", frontend_->port()); }
  std::unique_ptr<FrontendClient> Connect() const {
    const auto connect = [address = Address()] {
      grpc::ChannelArguments apart;
      apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), apart);
    };
    return std::make_unique<FrontendClient>(Address(), connect, absl::Seconds(60));
  }

  std::unique_ptr<FakeWorker> worker_;
  std::string job_;
};

class Answers {
 public:
  explicit Answers(int expected) : left_(expected) {}
  template <typename Reply>
  std::function<void(absl::StatusOr<Reply>)> Callback() {
    return [this](const absl::StatusOr<Reply>& reply) {
      if (!reply.ok()) {
        absl::MutexLock lock(&mu_);
        errors_.push_back(reply.status().ToString());
      }
      left_.DecrementCount();
    };
  }
  std::vector<std::string> AwaitErrors() {
    left_.Wait();
    absl::MutexLock lock(&mu_);
    return errors_;
  }

 private:
  absl::BlockingCounter left_;
  absl::Mutex mu_;
  std::vector<std::string> errors_ ABSL_GUARDED_BY(mu_);
};

TEST_F(FrontendBurstsTest, AllStreamsAndCallsAreServed) {
  constexpr int kStreams = 500, kCalls = 200;
  const std::unique_ptr<FrontendClient> client = Connect();
  Answers answers(kStreams + kCalls);
  v1::WatchVideoRequest request;
  request.set_id(job_);
  std::vector<std::shared_ptr<ReplyReader<v1::VideoEvent>>> watches;
  for (int i = 0; i < kStreams; ++i) {
    watches.push_back(client->WatchVideo({}, request));
    watches.back()->Next(answers.Callback<std::optional<v1::VideoEvent>>());
  }
  for (int i = 0; i < kCalls / 2; ++i) {
    client->CreateVideo({}, Request(), answers.Callback<CreatedVideo>());
    client->GetVideo({}, job_, answers.Callback<v1::Video>());
  }
  EXPECT_THAT(answers.AwaitErrors(), IsEmpty());
  for (const auto& watch : watches) watch->Cancel();
}

TEST_F(FrontendBurstsTest, AHundredJobsAreCreatedAtOnceOverHttp) {
  constexpr int kJobs = 100;
  GatewayFlags flags;
  flags.address = "127.0.0.1:0";
  flags.frontends = {Address()};
  flags.scratch_folder = directory_.path();
  auto gateway = Gateway::Start(flags);
  ASSERT_TRUE(gateway.ok()) << gateway.status();
  const std::string body = R"({"prompt": "a kite"})";
  const std::string request = absl::StrCat(
      "POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
      "\r\n\r\n", body);
  std::vector<std::unique_ptr<HttpConnection>> clients;
  for (int i = 0; i < kJobs; ++i) clients.push_back(std::make_unique<HttpConnection>((*gateway)->port()));
  for (const auto& client : clients) EXPECT_TRUE(client->Send(request));
  for (const auto& client : clients) EXPECT_THAT(client->ReadReply(), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace kinora

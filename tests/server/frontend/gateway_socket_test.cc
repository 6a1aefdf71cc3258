// The socket of the frontend's own gateway, on which each call names its client. Uploads show the limits per client.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <thread>

#include "server/common/client_metadata.h"
#include "server/common/sha256.h"
#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/raw_call.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class GatewaySocketTest : public FrontendTest {
 protected:
  struct Open {  // an upload that has begun and does not go on
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<v1::Input> input;
    std::unique_ptr<grpc::ClientWriter<v1::UploadInputRequest>> writer;
  };

  GatewaySocketTest() {
    config_.set_web_address("127.0.0.1:0");
    config_.set_gateway_binary(KINORA_GATEWAY_BINARY);
    config_.set_max_uploads_per_client(1);
  }
  std::shared_ptr<grpc::Channel> Socket() {
    return grpc::CreateChannel(absl::StrCat("unix:", directory_.File("state/gateway.sock")),
                               grpc::InsecureChannelCredentials());
  }
  // Begins an upload over `channel` whose metadata names `client` ("": none).
  Open Begin(const std::shared_ptr<grpc::Channel>& channel, const std::string& client) {
    Open open{.context = Context(), .input = std::make_unique<v1::Input>()};
    if (!client.empty()) open.context->AddMetadata(kClientMetadata, client);
    open.writer = v1::VideoGeneration::NewStub(channel)->UploadInput(open.context.get(), open.input.get());
    v1::UploadInputRequest request;
    request.mutable_header()->set_sha256(Sha256Hex(absl::StrCat(count_++)));
    request.mutable_header()->set_bytes(1);
    open.writer->Write(request);
    return open;
  }
  void AwaitOpen(int uploads) {
    while (Metrics()["kinora_uploads"] != uploads) std::this_thread::yield();
  }
  static absl::Status End(Open open) { return FromGrpcStatus(open.writer->Finish()); }

 private:
  int count_ = 0;
};

TEST_F(GatewaySocketTest, LimitsPerClientAreThoseOfTheClientsBehindTheGateway) {
  Start();
  const auto socket = Socket();
  const auto full = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_uploads_per_client: 1"));
  const Open first = Begin(socket, "192.0.2.1");
  AwaitOpen(1);
  EXPECT_THAT(End(Begin(socket, "192.0.2.1")), full);
  const Open second = Begin(socket, "192.0.2.2");
  AwaitOpen(2);
  const Open third = Begin(socket, "[2001:db8::]");
  AwaitOpen(3);
  EXPECT_THAT(End(Begin(socket, "[2001:db8::]")), full);
  const Open unnamed = Begin(socket, "");
  AwaitOpen(4);
  EXPECT_THAT(End(Begin(socket, std::string(100, '1'))), full);  // not an address: counts as unnamed
  for (const Open* open : {&first, &second, &third, &unnamed}) open->context->TryCancel();
  AwaitOpen(0);
}

TEST_F(GatewaySocketTest, AClientIsTheSameDirectlyAndThroughTheGateway) {
  Start();
  const Open direct = Begin(channel_, "");
  AwaitOpen(1);
  EXPECT_THAT(End(Begin(Socket(), "127.0.0.1")), StatusIs(absl::StatusCode::kResourceExhausted));
  direct.context->TryCancel();
  AwaitOpen(0);
}

TEST_F(GatewaySocketTest, NobodyElseCanPretendToBeAnotherClient) {
  Start();
  const Open first = Begin(channel_, "192.0.2.1");
  AwaitOpen(1);
  EXPECT_THAT(End(Begin(channel_, "192.0.2.2")), StatusIs(absl::StatusCode::kResourceExhausted));
  const Open other = Begin(Socket(), "192.0.2.1");  // whose uploads the first has not used up
  AwaitOpen(2);
  for (const Open* open : {&first, &other}) open->context->TryCancel();
  AwaitOpen(0);
}

TEST_F(GatewaySocketTest, TokensAreRequiredAndTheirHoldersAreTheClients) {
  WriteFile(directory_.File("tokens"), "first-0123456789\nsecond-0123456789\n");
  ASSERT_EQ(chmod(directory_.File("tokens").c_str(), 0600), 0);
  config_.set_token_file(directory_.File("tokens"));
  Start();
  const auto socket = Socket();
  EXPECT_THAT(End(Begin(socket, "192.0.2.1")), StatusIs(absl::StatusCode::kUnauthenticated));
  token_ = "first-0123456789";
  const Open first = Begin(socket, "192.0.2.1");
  AwaitOpen(1);
  EXPECT_THAT(End(Begin(socket, "192.0.2.2")), StatusIs(absl::StatusCode::kResourceExhausted));
  token_ = "second-0123456789";
  const Open second = Begin(socket, "192.0.2.1");
  AwaitOpen(2);
  for (const Open* open : {&first, &second}) open->context->TryCancel();
  AwaitOpen(0);
}

// All clients of the gateway share its connection.
TEST_F(GatewaySocketTest, CarriesMoreCallsThanAConnectionOfAClient) {
  config_.set_max_watchers(300);
  Start();
  const auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  const auto stub = v1::VideoGeneration::NewStub(Socket());
  v1::WatchVideoRequest request;
  request.set_id(id);
  std::vector<std::pair<std::unique_ptr<grpc::ClientContext>, EventReader>> watches;
  for (int i = 0; i < 200; ++i) {
    auto context = Context();
    auto reader = stub->WatchVideo(context.get(), request);
    v1::VideoEvent event;
    ASSERT_TRUE(reader->Read(&event)) << i;
    watches.emplace_back(std::move(context), std::move(reader));
  }
  for (const auto& [context, reader] : watches) {
    context->TryCancel();
    reader->Finish();
  }
}

TEST_F(GatewaySocketTest, SaysWhetherTheFrontendIsReadyAndIsItsOwnersAlone) {
  Start();
  const auto socket = Socket();
  EXPECT_EQ(Health(socket, ""), "SERVING");
  EXPECT_EQ(Health(socket, "kinora.v1.VideoGeneration"), "NOT_SERVING");
  const auto worker = StartWorker();
  while (Health(socket, "kinora.v1.VideoGeneration") != "SERVING") std::this_thread::yield();
  struct stat info;
  ASSERT_EQ(stat(directory_.File("state/gateway.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(FrontendTest, WithoutAWebAddressThereIsNoGatewaySocket) {
  Start();
  EXPECT_EQ(frontend_->page(), "");
  EXPECT_FALSE(std::filesystem::exists(directory_.File("state/gateway.sock")));
}

}  // namespace
}  // namespace kinora

#include "server/net/grpc_listener.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

struct Server {
  explicit Server(GrpcListener& listener) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&others);  // a server with only the health service has no polling thread
    listener.AddTo(builder, grpc::InsecureServerCredentials());
    server = builder.BuildAndStart();
    KINORA_CHECK(server != nullptr);
  }
  grpc::CallbackGenericService others;
  std::unique_ptr<grpc::Server> server;
};

TEST(GrpcListener, ServesOnEveryKindOfAddressAndAnswersItself) {
  TemporaryDirectory directory;
  for (const std::string& address :
       {std::string("127.0.0.1:0"), std::string("[::1]:0"), absl::StrCat("unix:", directory.File("a.sock"))}) {
    KINORA_ASSERT_OK_AND_ASSIGN(
        const auto listener,
        GrpcListener::Bind({.field = "address", .address = address, .max_connections = 4, .max_calls = 100}));
    const Server server(*listener);
    listener->Serve();
    const std::string target =
        listener->port() == 0 ? address : absl::StrCat(address.substr(0, address.size() - 1), listener->port());
    EXPECT_THAT(RawCall(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()), kCheck, ""),
                IsOkAndHolds("\x08\x01"))
        << target;
    EXPECT_THAT(listener->CheckSelf(absl::Seconds(30)), IsOk()) << target;
    listener->Stop();
    server.server->Shutdown();
  }
}

TEST(GrpcListener, ADeafOneDoesNotAnswerItself) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const auto listener,
      GrpcListener::Bind({.field = "address", .address = "127.0.0.1:0", .max_connections = 4, .max_calls = 100}));
  const Server server(*listener);
  EXPECT_THAT(listener->CheckSelf(absl::Milliseconds(200)),  // it listens, but nothing accepts
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("does not answer its own health check")));
  listener->Serve();
  EXPECT_THAT(listener->CheckSelf(absl::Seconds(30)), IsOk());
}

// A listener at its connection limit still passes its own health check.
TEST(GrpcListener, AFullOneAnswersItself) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const auto listener,
      GrpcListener::Bind({.field = "address", .address = "127.0.0.1:0", .max_connections = 1, .max_calls = 100}));
  const Server server(*listener);
  listener->Serve();
  const auto target = absl::StrCat("127.0.0.1:", listener->port());
  const auto client = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  EXPECT_THAT(RawCall(client, kCheck, ""), IsOk());
  grpc::ChannelArguments apart;  // otherwise two channels share a connection
  apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  EXPECT_THAT(RawCall(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), apart), kCheck, ""),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(listener->CheckSelf(absl::Seconds(30)), IsOk());
}

}  // namespace
}  // namespace kinora

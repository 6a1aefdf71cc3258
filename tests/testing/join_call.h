// Sends an arbitrary Hello to a worker's socket, to test the frontend's answer.
#ifndef KINORA_TESTS_TESTING_JOIN_CALL_H_
#define KINORA_TESTS_TESTING_JOIN_CALL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/net/grpc_status.h"

namespace kinora {

struct Caller {
  std::string address;
  std::string token{};                                              // empty: not sent
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // null: no TLS
};

// Returns OK if the frontend sent a Welcome; then breaks the stream.
inline absl::Status SayHello(const Caller& caller, const v1::Hello& hello) {
  const auto channel =
      grpc::CreateChannel(caller.address, caller.credentials ? caller.credentials : grpc::InsecureChannelCredentials());
  const auto stub = v1::WorkerControl::NewStub(channel);
  grpc::ClientContext context;
  if (!caller.token.empty()) context.AddMetadata("authorization", "Bearer " + caller.token);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto stream = stub->Join(&context);
  v1::WorkerMessage message;
  *message.mutable_hello() = hello;
  v1::FrontendMessage answer;
  const bool welcome = stream->Write(message) && stream->Read(&answer) && answer.has_welcome();
  if (welcome) context.TryCancel();
  const grpc::Status status = stream->Finish();
  return welcome ? absl::OkStatus() : FromGrpcStatus(status);
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_JOIN_CALL_H_

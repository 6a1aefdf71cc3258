// A unary gRPC call of raw bytes, for services without generated stubs and for messages that a stub would not write.
#ifndef KINORA_TESTS_TESTING_RAW_CALL_H_
#define KINORA_TESTS_TESTING_RAW_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/net/grpc_status.h"

namespace kinora {

inline absl::StatusOr<std::string> RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                                           const std::string& request, const std::string& authorization = "") {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  if (!authorization.empty()) context.AddMetadata("authorization", authorization);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  const auto call = stub.PrepareUnaryCall(&context, method, bytes, &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  if (!status.ok()) return FromGrpcStatus(status);
  std::vector<grpc::Slice> slices;
  reply.Dump(&slices);
  std::string out;
  for (const grpc::Slice& part : slices) out.append(reinterpret_cast<const char*>(part.begin()), part.size());
  return out;
}

// Calls grpc.health.v1.Health/Check for `service`; returns the name of its status, or the error code. Each protocol
// message has one field: the request a name, the response a number (1: SERVING, 2: NOT_SERVING).
inline std::string Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  std::string request;
  if (!service.empty()) request = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  const auto reply = RawCall(channel, "/grpc.health.v1.Health/Check", request);
  if (!reply.ok()) return absl::StatusCodeToString(reply.status().code());
  return *reply == "\x08\x01" ? "SERVING" : *reply == "\x08\x02" ? "NOT_SERVING" : "?";
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_RAW_CALL_H_

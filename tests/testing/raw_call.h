// A unary gRPC call of bytes: for services without generated stubs and for messages that no stub would write.
#ifndef KINORA_TESTS_TESTING_RAW_CALL_H_
#define KINORA_TESTS_TESTING_RAW_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/common/grpc_status.h"

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

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_RAW_CALL_H_

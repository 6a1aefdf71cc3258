// A request of a gRPC method whose bytes are parsed by ParseMessage, so that bad bytes and bad text are
// INVALID_ARGUMENT with the field; gRPC itself answers UNIMPLEMENTED to what its generated code cannot parse.
#ifndef KINORA_SERVER_FRONTEND_API_PARSED_REQUEST_H_
#define KINORA_SERVER_FRONTEND_API_PARSED_REQUEST_H_

#include <grpcpp/impl/codegen/serialization_traits.h>
#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/frontend/api/message_check.h"

namespace kinora {

// `Message` may be Empty as well: a call that sends something is told so.
template <typename Message>
struct ParsedRequest {
  absl::Status status;  // of parsing
  Message message;
};

}  // namespace kinora

namespace grpc {

template <typename Message>
class SerializationTraits<kinora::ParsedRequest<Message>> {
 public:
  static Status Deserialize(ByteBuffer* buffer, kinora::ParsedRequest<Message>* request) {
    std::vector<Slice> slices;
    std::string bytes;
    if (buffer->Dump(&slices).ok()) {
      for (const Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    buffer->Clear();
    request->status = kinora::ParseMessage(bytes, request->message);
    return Status::OK;
  }
};

}  // namespace grpc

#endif  // KINORA_SERVER_FRONTEND_API_PARSED_REQUEST_H_

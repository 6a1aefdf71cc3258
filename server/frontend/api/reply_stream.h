// The replies of a server-streaming method, as gRPC's ServerWriteReactor, but on a ServerCall. A reactor derives from
// it and lives until OnDone. Writes before the call is attached are sent when it is.
#ifndef KINORA_SERVER_FRONTEND_API_REPLY_STREAM_H_
#define KINORA_SERVER_FRONTEND_API_REPLY_STREAM_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"

namespace kinora {

class MessageReads;
class ServerCall;

template <typename Message>
grpc::ByteBuffer ToByteBuffer(const Message& message) {
  grpc::ByteBuffer bytes;
  bool own;
  KINORA_CHECK(grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own).ok());
  return bytes;
}

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual void OnWriteDone(bool ok) = 0;
  virtual void OnCancel() = 0;
  virtual void OnDone() = 0;  // last callback; the call no longer exists

 protected:
  void Finish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(attach_mu_);  // once
  void StartWriteBytes(const grpc::ByteBuffer& bytes) ABSL_LOCKS_EXCLUDED(attach_mu_);
  void WriteBytesAndFinish(const grpc::ByteBuffer& bytes) ABSL_LOCKS_EXCLUDED(attach_mu_);
  void ReadNextMessage(MessageReads& reads) ABSL_LOCKS_EXCLUDED(attach_mu_);  // only while attached

 private:
  friend class ServerCall;
  void AttachTo(ServerCall* call) ABSL_LOCKS_EXCLUDED(attach_mu_);

  absl::Mutex attach_mu_;
  ServerCall* call_ ABSL_GUARDED_BY(attach_mu_) = nullptr;
  std::optional<grpc::ByteBuffer> early_write_ ABSL_GUARDED_BY(attach_mu_);
  std::optional<absl::Status> early_finish_ ABSL_GUARDED_BY(attach_mu_);
};

template <typename Reply>
class ReplyStream : public ByteStream {
 protected:
  // One write at a time; OnWriteDone follows. Serializes the reply before it returns.
  void StartWrite(const Reply* reply) { StartWriteBytes(ToByteBuffer(*reply)); }
  void StartWriteAndFinish(const Reply* reply) { WriteBytesAndFinish(ToByteBuffer(*reply)); }  // ends with OK
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_REPLY_STREAM_H_

#include "server/frontend/api/server_call.h"

#include <grpcpp/support/slice.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/common/client_metadata.h"
#include "server/frontend/api/reply_stream.h"
#include "server/net/grpc_status.h"

namespace kinora {
namespace {

constexpr size_t kLongestClient = 64;  // an IPv6 address in brackets has at most 41 characters

std::string_view Metadata(const grpc::CallbackServerContext& call, const char* key) {  // "" if absent
  const auto found = call.client_metadata().find(key);
  if (found == call.client_metadata().end()) return "";
  return std::string_view(found->second.data(), found->second.size());
}

std::string_view Authorization(const grpc::CallbackServerContext& call) { return Metadata(call, "authorization"); }

// Returns the address that the gateway states, as gRPC writes a peer's, without a port; "" if there is none.
std::string ToldClient(const grpc::CallbackServerContext& call, const CallAccess& access) {
  if (!access.from_gateway) return "";
  const std::string client(Metadata(call, kClientMetadata));
  if (client.size() > kLongestClient) return "";
  if (client.empty() || absl::StartsWith(client, "unix")) return client;
  return absl::StrCat(client.front() == '[' ? "ipv6:" : "ipv4:", client);
}

}  // namespace

std::string PeerOf(const grpc::CallbackServerContext& call, const CallAccess& access) {
  std::string client = ToldClient(call, access);
  return client.empty() ? call.peer() : client;
}

std::string ClientOf(const grpc::CallbackServerContext& call, const CallAccess& access) {
  std::string holder = access.tokens->Holder(Authorization(call));
  if (!holder.empty()) return holder;
  std::string client = ToldClient(call, access);
  if (!client.empty()) return client;
  const std::string peer = call.peer();  // "ipv4:127.0.0.1:4711"
  return absl::StartsWith(peer, "unix") ? "unix" : peer.substr(0, peer.rfind(':'));
}

ServerCall* ServerCall::Start(grpc::CallbackServerContext* context, std::string_view method, const CallAccess& access,
                              const OnMessage& on_message) {
  std::shared_ptr<ServerCall> call(new ServerCall(context, method, access, on_message));
  call->self_ = call;
  const absl::Status status = access.tokens->Check(Authorization(*context));
  if (!status.ok() && access.strangers == nullptr) {
    access.log->Rejected(PeerOf(*context, access), method, status);
    call->Finish(status);
  } else {
    call->reads_ = status.ok() ? access.reads : access.strangers;
    call->ReadNext();
  }
  return call.get();
}

void ServerCall::ReadNext() {
  read_ = reads_->Begin([call = shared_from_this()](const absl::Status& why) { call->Finish(why); });
  StartRead(&message_);
}

void ServerCall::ReadNext(MessageReads& reads) {
  reads_ = &reads;
  ReadNext();
}

void ServerCall::OnReadDone(bool ok) {
  if (!reads_->End(read_)) return;
  if (!ok && context_->IsCancelled()) return Finish(absl::CancelledError("the client disconnected"));
  if (!ok) return on_message_(*this, std::nullopt);
  grpc::Slice slice;
  const grpc::Status status = message_.DumpToSingleSlice(&slice);
  message_.Clear();
  if (!status.ok()) return Finish(FromGrpcStatus(status));
  on_message_(*this, std::string_view(reinterpret_cast<const char*>(slice.begin()), slice.size()));
}

void ServerCall::Write(const grpc::ByteBuffer& bytes) {
  reply_ = bytes;
  StartWrite(&reply_);
}

void ServerCall::WriteAndFinish(const grpc::ByteBuffer& bytes) {
  reply_ = bytes;
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void ServerCall::Finish(const absl::Status& status) {
  access_.log->Failed(method_, status);
  grpc::ServerGenericBidiReactor::Finish(ToGrpcStatus(status));
}

void ServerCall::Attach(ByteStream* stream) {
  bool cancelled;
  {
    absl::MutexLock lock(&mu_);
    stream_ = stream;
    cancelled = cancelled_;
  }
  if (cancelled) stream->OnCancel();
  stream->AttachTo(this);
}

ByteStream* ServerCall::stream() {
  absl::MutexLock lock(&mu_);
  return stream_;
}

void ServerCall::OnWriteDone(bool ok) {
  if (ByteStream* attached = stream()) attached->OnWriteDone(ok);
}

void ServerCall::OnCancel() {
  ByteStream* attached;
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    attached = stream_;
  }
  if (attached != nullptr) attached->OnCancel();
}

void ServerCall::OnDone() {
  if (ByteStream* attached = stream()) attached->OnDone();
  self_.reset();
}

void ByteStream::AttachTo(ServerCall* call) {
  absl::MutexLock lock(&attach_mu_);
  call_ = call;
  if (early_write_.has_value() && early_finish_.has_value()) {
    call->WriteAndFinish(*std::move(early_write_));
  } else if (early_write_.has_value()) {
    call->Write(*std::move(early_write_));
  } else if (early_finish_.has_value()) {
    call->Finish(*early_finish_);
  }
}

void ByteStream::ReadNextMessage(MessageReads& reads) {
  ServerCall* call;
  {
    absl::MutexLock lock(&attach_mu_);
    call = call_;
  }
  call->ReadNext(reads);
}

void ByteStream::StartWriteBytes(const grpc::ByteBuffer& bytes) {
  absl::MutexLock lock(&attach_mu_);
  if (call_ != nullptr) return call_->Write(bytes);
  early_write_ = bytes;
}

void ByteStream::WriteBytesAndFinish(const grpc::ByteBuffer& bytes) {
  absl::MutexLock lock(&attach_mu_);
  if (call_ != nullptr) return call_->WriteAndFinish(bytes);
  early_write_ = bytes;
  early_finish_ = absl::OkStatus();
}

void ByteStream::Finish(const absl::Status& status) {
  absl::MutexLock lock(&attach_mu_);
  if (call_ != nullptr) return call_->Finish(status);
  early_finish_ = status;
}

}  // namespace kinora

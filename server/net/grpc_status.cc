#include "server/net/grpc_status.h"

#include <string>

#include "server/common/status_details.h"

namespace kinora {
namespace {

// The message is sent twice, in grpc-message and in the base64 details, so each limit is a share of the 8 KiB.
constexpr size_t kMaxMessage = 1536;
constexpr size_t kMaxDetails = 3072;

std::string Cut(std::string message) {
  if (message.size() <= kMaxMessage) return message;
  size_t end = kMaxMessage;
  while (end > 0 && (message[end] & 0xC0) == 0x80) --end;  // not inside a UTF-8 sequence
  message.resize(end);
  return message + "…";
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details = ToRpcStatus(status);
  details.set_message(Cut(details.message()));
  while (details.details_size() > 0 && details.ByteSizeLong() > kMaxDetails) details.mutable_details()->RemoveLast();
  return grpc::Status(static_cast<grpc::StatusCode>(details.code()), details.message(),
                      details.details_size() == 0 ? std::string() : details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) details.Clear();
  details.set_code(status.error_code());
  details.set_message(status.error_message());
  return FromRpcStatus(details);
}

}  // namespace kinora

// A client with a token opens all uploads that the server allows and sends chunks without data, to hold all upload
// slots beyond upload_idle_seconds.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/sha256.h"
#include "server/net/grpc_status.h"
#include "tests/attack/attack.h"

namespace kinora {
namespace {

constexpr int kUploads = 8;             // max_uploads, all used by one client
constexpr int kMostPieces = 1'000'000;  // per upload

struct EmptyUpload {
  absl::Status status;
  int64_t pieces = 0;
};

// Sends until the server ends the call.
EmptyUpload SendEmptyPieces(const Target& target, v1::VideoGeneration::Stub& stub, const std::string& content) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", target.authorization());
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  v1::Input input;
  const auto writer = stub.UploadInput(&context, &input);
  v1::UploadInputRequest request;
  request.mutable_header()->set_sha256(Sha256Hex(content));
  request.mutable_header()->set_bytes(std::ssize(content));
  EmptyUpload upload;
  bool open = writer->Write(request);
  request.set_data("");
  for (; open && upload.pieces < kMostPieces; ++upload.pieces) open = writer->Write(request);
  upload.status = FromGrpcStatus(writer->Finish());
  return upload;
}

absl::Status HoldUploads(const Target& target, Effort& effort) {
  const auto stub =
      v1::VideoGeneration::NewStub(grpc::CreateChannel(target.address(), grpc::InsecureChannelCredentials()));
  effort.connections = 1;
  std::vector<EmptyUpload> uploads(kUploads);
  std::vector<std::thread> clients;
  for (int i = 0; i < kUploads; ++i) {
    clients.emplace_back([&, i] { uploads[i] = SendEmptyPieces(target, *stub, absl::StrCat("content ", i)); });
  }
  for (std::thread& client : clients) client.join();
  for (const EmptyUpload& upload : uploads) {
    effort.bytes += upload.pieces;
    if (!absl::IsInvalidArgument(upload.status)) {
      return absl::InternalError(absl::StrCat("an upload of empty pieces ended with ", upload.status.ToString()));
    }
  }
  const std::string png = "\x89PNG\r\n\x1a\nand so on";  // every slot is free again
  for (int i = 0; i < kUploads; ++i) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", target.authorization());
    v1::Input input;
    const auto writer = stub->UploadInput(&context, &input);
    v1::UploadInputRequest request;
    request.mutable_header()->set_sha256(Sha256Hex(absl::StrCat(png, i)));
    request.mutable_header()->set_bytes(std::ssize(png) + 1);
    writer->Write(request);
    request.set_data(absl::StrCat(png, i));
    writer->Write(request);
    writer->WritesDone();
    KINORA_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish()));
  }
  return target.Serves();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack({.name = "empty_pieces",
                            .flags = {absl::StrCat("--max-uploads=", kinora::kUploads), "--max-uploads-per-client=8",
                                      "--upload-idle-seconds=30"},
                            .open_files = 0,
                            .most_growth_bytes = 100 << 20,
                            .attack = kinora::HoldUploads});
}

// A joined rank runs a job and sends one chunk each for many artifacts, without ending any.
#include <chrono>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/net/grpc_status.h"
#include "tests/attack/attack.h"
#include "tests/attack/joined_rank.h"

namespace kinora {
namespace {

constexpr int kArtifacts = 5000, kMostDescriptors = 50;  // kMostDescriptors: more than before

absl::Status CreateItsJob(const Target& target) {
  const auto stub =
      v1::VideoGeneration::NewStub(grpc::CreateChannel(target.address(), grpc::InsecureChannelCredentials()));
  v1::CreateVideoRequest request;
  request.set_model("far");
  request.mutable_generation()->set_prompt("a kite");
  absl::Status status;
  do {  // until the model is stored
    grpc::ClientContext context;
    context.AddMetadata("authorization", target.authorization());
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::Video video;
    status = FromGrpcStatus(stub->CreateVideo(&context, request, &video));
  } while (absl::IsFailedPrecondition(status));
  return status;
}

absl::Status BeginWithoutEnd(const Target& target, Effort& effort) {
  JoinedRank rank(target);
  ++effort.connections;
  if (!rank.Join()) return absl::InternalError("the rank was not let in");
  // The frontend requests the job's estimate; this rank does not answer.
  KINORA_RETURN_IF_ERROR(CreateItsJob(target));
  v1::FrontendMessage heard;
  while (!heard.has_run()) {
    if (!rank.Hear(heard)) return absl::InternalError("no run came");
  }
  const int before = target.descriptors();
  v1::WorkerMessage piece;
  v1::UploadChunk& chunk = *piece.mutable_upload_chunk();
  chunk.set_video_id(heard.run().video_id());
  chunk.set_attempt(heard.run().attempt());
  chunk.set_data("x");
  for (int i = 0; i < kArtifacts; ++i) {
    chunk.set_name(absl::StrCat(i));
    if (!rank.Say(piece)) return absl::InternalError("the stream ended");
    heard.Clear();
    while (!heard.has_upload_answer()) {
      if (!rank.Hear(heard)) return absl::InternalError("the stream ended");
    }
    ++effort.bytes;
  }
  const int more = target.descriptors() - before;
  if (more > kMostDescriptors) return absl::ResourceExhaustedError(absl::StrCat(more, " more descriptors are open"));
  return target.Serves();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack({.name = "unended_artifacts",
                            .flags = {},
                            .join_port = true,
                            .most_growth_bytes = 64 << 20,
                            .attack = kinora::BeginWithoutEnd});
}

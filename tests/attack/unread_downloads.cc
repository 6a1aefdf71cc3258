// A client with a token opens as many downloads as possible and reads from none. Each may hold a file open.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "tests/attack/attack.h"

namespace kinora {
namespace {

constexpr int kConnections = 20, kDownloads = 100;  // kDownloads: per connection
constexpr absl::Duration kHeld = absl::Seconds(5);

// A connection whose calls give the server no window to write.
class UnreadDownloads {
 public:
  UnreadDownloads(const Target& target, const std::string& job) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    stub_ = v1::VideoGeneration::NewStub(
        grpc::CreateCustomChannel(target.address(), grpc::InsecureChannelCredentials(), arguments));
    v1::DownloadArtifactRequest request;
    request.set_video_id(job);
    for (int i = 0; i < kDownloads; ++i) {
      contexts_.push_back(std::make_unique<grpc::ClientContext>());
      contexts_.back()->AddMetadata("authorization", target.authorization());
      calls_.push_back(stub_->AsyncDownloadArtifact(contexts_.back().get(), request, &queue_, nullptr));
    }
  }
  ~UnreadDownloads() {
    for (const auto& context : contexts_) context->TryCancel();
    queue_.Shutdown();
    void* tag;
    for (bool ok; queue_.Next(&tag, &ok);) {
    }
  }
  // Returns the number of calls that were sent, or rejected on the way.
  int AwaitStarted() {
    int started = 0;
    void* tag;
    for (bool ok; started < kDownloads; ++started) {
      const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(5);
      if (queue_.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) break;
    }
    return started;
  }

 private:
  grpc::CompletionQueue queue_;
  std::unique_ptr<v1::VideoGeneration::Stub> stub_;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::ClientAsyncReader<v1::ArtifactChunk>>> calls_;
};

absl::Status TakeNothing(const Target& target, Effort& effort) {
  KINORA_ASSIGN_OR_RETURN(const std::string job, target.RunAJob());
  std::vector<std::unique_ptr<UnreadDownloads>> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<UnreadDownloads>(target, job));
    ++effort.connections;
    if (clients.back()->AwaitStarted() < kDownloads) break;  // the server accepts no more
  }
  Clock& clock = Clock::Steady();
  for (const absl::Time end = clock.Now() + kHeld; clock.Now() < end;) {
    KINORA_RETURN_IF_ERROR(target.Serves());  // while the downloads are open
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack({.name = "unread_downloads",
                            .flags = {},
                            .open_files = 1024,
                            .most_growth_bytes = 600 << 20,
                            .attack = kinora::TakeNothing});
}

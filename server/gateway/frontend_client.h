// Asynchronous calls to one frontend, on behalf of the clients of the gateway. Every call returns at once and begins at
// its turn (call_queue.h); its callback runs once, on a thread of gRPC or of the queue, and must not block. Statuses
// carry the frontend's google.rpc details (status_details.h). UnavailableError: the frontend cannot be reached, or with
// RetryInfo: too many calls wait for it.
#ifndef KINORA_SERVER_GATEWAY_FRONTEND_CLIENT_H_
#define KINORA_SERVER_GATEWAY_FRONTEND_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/gateway/call_queue.h"
#include "server/gateway/reply_reader.h"
#include "server/gateway/spool_file.h"
#include "server/gateway/stream_connections.h"
#include "server/net/call_count.h"

namespace kinora {

// A call in progress, which its starter may cancel; its callback then gets CANCELLED. Keep it no longer than its
// FrontendClient, whose destructor waits for it.
class FrontendCall {
 public:
  virtual ~FrontendCall() = default;
  virtual void Cancel() = 0;  // any thread, also after the call has ended
};
using FrontendCallPtr = std::shared_ptr<FrontendCall>;

template <typename Reply>
using OnReply = std::function<void(absl::StatusOr<Reply>)>;

// The client on whose behalf a call is made.
struct Caller {
  std::string authorization;  // the value of its header, "Bearer TOKEN", passed on as it is; empty: none
  std::string client;         // its address, as HttpExchange::client; passed on only over a Unix socket
};

struct CreatedVideo {
  v1::Video video;
  bool replayed = false;  // an earlier request with this request_id created it
};

class FrontendClient {
 public:
  // address: for people. connect: as StreamConnections::Connect. timeout: of each unary call, with its wait.
  FrontendClient(std::string address, const StreamConnections::Connect& connect, absl::Duration timeout,
                 const CallQueueLimits& limits = {});

  const std::string& address() const { return address_; }
  // Whether there is a connection for unary calls. Begins to make one if there is none.
  bool IsConnected() const { return channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY; }

  FrontendCallPtr CreateVideo(const Caller& caller, v1::CreateVideoRequest request, OnReply<CreatedVideo> on_reply);
  FrontendCallPtr EstimateVideo(const Caller& caller, v1::CreateVideoRequest request, OnReply<v1::Estimate> on_reply);
  // link_seconds: as in GetVideoRequest.
  FrontendCallPtr GetVideo(const Caller& caller, const std::string& id, OnReply<v1::Video> on_reply,
                           int64_t link_seconds = 0);
  FrontendCallPtr ListVideos(const Caller& caller, v1::ListVideosRequest request,
                             OnReply<v1::ListVideosResponse> on_reply);
  FrontendCallPtr CancelVideo(const Caller& caller, const std::string& id, OnReply<v1::Video> on_reply);
  // Cancels the job first if it has not ended; it is deleted when it has.
  FrontendCallPtr DeleteVideo(const Caller& caller, const std::string& id, OnReply<google::protobuf::Empty> on_reply);
  FrontendCallPtr ListModels(const Caller& caller, OnReply<v1::ListModelsResponse> on_reply);
  // Only of a client for an admin address, which serves nothing else.
  FrontendCallPtr ListWorkerGroups(const Caller& caller, OnReply<v1::ListWorkerGroupsResponse> on_reply);
  // Whether a group takes jobs (grpc.health.v1). Unavailable: none does.
  FrontendCallPtr CheckReady(std::function<void(absl::Status)> on_reply);

  // Uploads the whole file, which must not be empty, unless the frontend has it already. media_type: "": any.
  FrontendCallPtr UploadInput(const Caller& caller, std::shared_ptr<const SpoolFile> file,
                              const std::string& media_type, OnReply<v1::Input> on_reply);

  FrontendCallPtr GetInput(const Caller& caller, const std::string& sha256, OnReply<v1::Input> on_reply);

  // Streams without a deadline.
  std::shared_ptr<ReplyReader<v1::VideoEvent>> WatchVideo(const Caller& caller, const v1::WatchVideoRequest& request);
  std::shared_ptr<ReplyReader<v1::ArtifactChunk>> DownloadArtifact(const Caller& caller,
                                                                   const v1::DownloadArtifactRequest& request);

 private:
  template <typename Request, typename Reply>
  class UnaryCall;

  void Introduce(const Caller& caller, grpc::ClientContext& context) const;
  absl::Status ToStatus(const grpc::Status& status) const;
  // Runs start(on_status) at the call's turn, and on_end(status) at its end.
  template <typename Request, typename Reply, typename Start, typename OnEnd>
  FrontendCallPtr Begin(const std::shared_ptr<UnaryCall<Request, Reply>>& call, Start start, OnEnd on_end);
  template <typename Service, typename Request, typename Reply>
  FrontendCallPtr Call(Service* stub,
                       void (Service::*method)(grpc::ClientContext*, const Request*, Reply*,
                                               std::function<void(grpc::Status)>),
                       const Caller& caller, Request request, OnReply<Reply> on_reply);

  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  const absl::Duration timeout_;
  const bool tells_client_;
  const std::unique_ptr<v1::VideoGeneration::Stub> videos_;
  const std::unique_ptr<v1::Models::Stub> models_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  // They outlive the calls. Probes do not wait for other calls: the frontend counts those without a token apart.
  CallQueue queue_, probes_;
  StreamConnections streams_;
  // Its end awaits the calls: gRPC's own threads end them, and must not be the ones that destroy a channel.
  CallCount calls_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_FRONTEND_CLIENT_H_

#include "server/gateway/frontend_client.h"

#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "server/common/client_metadata.h"
#include "server/common/grpc_deadline.h"
#include "server/net/grpc_status.h"

namespace kinora {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr size_t kUploadBytes = 256 << 10;                  // of one message
constexpr absl::Duration kReadyTimeout = absl::Seconds(2);  // probes wait no longer
constexpr CallQueueLimits kProbes = {.beginning = 4, .waiting = 400, .wait = kReadyTimeout};

// Sends a file message by message. The frontend ends the call early if it has the content already.
class Upload : public FrontendCall,
               public grpc::ClientWriteReactor<v1::UploadInputRequest>,
               public std::enable_shared_from_this<Upload> {
 public:
  // on_end: with OK or the error of the call or of the queue.
  Upload(std::shared_ptr<void> counted, CallQueue& queue, std::shared_ptr<const SpoolFile> file,
         std::function<void(const grpc::Status&, v1::Input)> on_end)
      : counted_(std::move(counted)), queue_(queue), file_(std::move(file)), on_end_(std::move(on_end)) {}

  void Begin(v1::VideoGeneration::Stub& stub, const std::string& media_type) {
    turn_ = queue_.Enter([self = shared_from_this(), &stub, media_type](absl::StatusOr<CallQueue::Place> place) {
      if (!place.ok()) return self->End(ToGrpcStatus(place.status()));
      self->place_ = *std::move(place);
      self->Start(stub, media_type);
    });
  }
  void Cancel() override {
    context_.TryCancel();
    queue_.Leave(turn_);
  }
  grpc::ClientContext& context() { return context_; }

  // The frontend sends metadata once it has the header.
  void OnReadInitialMetadataDone(bool) override { place_.reset(); }

  void OnWriteDone(bool ok) override {
    if (!ok) return;  // the call has ended
    if (sent_ == file_->size()) {
      StartWritesDone();
      return;
    }
    absl::StatusOr<std::string> piece = file_->Read(sent_, kUploadBytes);
    if (!piece.ok() || piece->empty()) return context_.TryCancel();
    sent_ += static_cast<int64_t>(piece->size());
    request_.set_data(*std::move(piece));
    StartWrite(&request_);
  }

  void OnDone(const grpc::Status& status) override {
    const auto self = std::move(self_);
    place_.reset();
    End(status);
  }

 private:
  void Start(v1::VideoGeneration::Stub& stub, const std::string& media_type) {
    self_ = shared_from_this();
    stub.async()->UploadInput(&context_, &input_, this);
    auto* header = request_.mutable_header();
    header->set_media_type(media_type);
    header->set_bytes(file_->size());
    header->set_sha256(file_->sha256());
    StartWrite(&request_);
    StartCall();
  }
  void End(const grpc::Status& status) {
    const auto on_end = std::exchange(on_end_, nullptr);  // may hold this call
    file_ = nullptr;                                      // its space is free when the caller learns of the end
    on_end(status, std::move(input_));
  }

  const std::shared_ptr<void> counted_;  // released last
  CallQueue& queue_;
  int64_t turn_ = 0;
  CallQueue::Place place_;
  std::shared_ptr<const SpoolFile> file_;  // until the end
  std::function<void(const grpc::Status&, v1::Input)> on_end_;
  std::shared_ptr<Upload> self_;  // from its turn until OnDone
  grpc::ClientContext context_;
  v1::UploadInputRequest request_;
  v1::Input input_;
  int64_t sent_ = 0;
};

}  // namespace

template <typename Request, typename Reply>
class FrontendClient::UnaryCall : public FrontendCall {
 public:
  UnaryCall(std::shared_ptr<void> is_counted, CallQueue& its_queue)
      : counted(std::move(is_counted)), queue(its_queue) {}
  void Cancel() override {
    context.TryCancel();
    queue.Leave(turn);
  }

  const std::shared_ptr<void> counted;  // released last
  CallQueue& queue;
  int64_t turn = 0;
  grpc::ClientContext context;
  Request request;
  Reply reply;
};

FrontendClient::FrontendClient(std::string address, const StreamConnections::Connect& connect, absl::Duration timeout,
                               const CallQueueLimits& limits)
    : address_(std::move(address)),
      channel_(connect()),
      timeout_(timeout),
      tells_client_(absl::StartsWith(address_, "unix:")),
      videos_(v1::VideoGeneration::NewStub(channel_)),
      models_(v1::Models::NewStub(channel_)),
      admin_(v1::Admin::NewStub(channel_)),
      queue_({.beginning = limits.beginning, .waiting = limits.waiting, .wait = std::min(limits.wait, timeout)}),
      probes_(kProbes),
      streams_(connect) {}

void FrontendClient::Introduce(const Caller& caller, grpc::ClientContext& context) const {
  if (!caller.authorization.empty()) context.AddMetadata("authorization", caller.authorization);
  if (tells_client_) context.AddMetadata(kClientMetadata, caller.client);
}

absl::Status FrontendClient::ToStatus(const grpc::Status& status) const {
  absl::Status converted = FromGrpcStatus(status);
  // Without details it is gRPC's own error and not the frontend's.
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !status.error_details().empty()) return converted;
  return absl::UnavailableError("the server behind this gateway cannot be reached; try again soon");
}

template <typename Request, typename Reply, typename Start, typename OnEnd>
FrontendCallPtr FrontendClient::Begin(const std::shared_ptr<UnaryCall<Request, Reply>>& call, Start start,
                                      OnEnd on_end) {
  call->turn = call->queue.Enter([this, call, start, on_end](absl::StatusOr<CallQueue::Place> place) {
    if (!place.ok()) return on_end(place.status());
    start([this, call, on_end, place = *std::move(place)](const grpc::Status& status) mutable {
      place.reset();
      on_end(status.ok() ? absl::OkStatus() : ToStatus(status));
    });
  });
  return call;
}

template <typename Service, typename Request, typename Reply>
FrontendCallPtr FrontendClient::Call(Service* stub,
                                     void (Service::*method)(grpc::ClientContext*, const Request*, Reply*,
                                                             std::function<void(grpc::Status)>),
                                     const Caller& caller, Request request, OnReply<Reply> on_reply) {
  auto call = std::make_shared<UnaryCall<Request, Reply>>(calls_.Begin(), queue_);
  Introduce(caller, call->context);
  call->context.set_deadline(GrpcDeadline(timeout_));
  call->request = std::move(request);
  const auto start = [stub, method, call](std::function<void(grpc::Status)> on_status) {
    (stub->*method)(&call->context, &call->request, &call->reply, std::move(on_status));
  };
  return Begin(call, start, [call, on_reply = std::move(on_reply)](const absl::Status& status) {
    if (!status.ok()) return on_reply(status);
    on_reply(std::move(call->reply));
  });
}

FrontendCallPtr FrontendClient::CreateVideo(const Caller& caller, v1::CreateVideoRequest request,
                                            OnReply<CreatedVideo> on_reply) {
  auto call = std::make_shared<UnaryCall<v1::CreateVideoRequest, v1::Video>>(calls_.Begin(), queue_);
  Introduce(caller, call->context);
  call->context.set_deadline(GrpcDeadline(timeout_));
  call->request = std::move(request);
  const auto start = [this, call](std::function<void(grpc::Status)> on_status) {
    videos_->async()->CreateVideo(&call->context, &call->request, &call->reply, std::move(on_status));
  };
  return Begin(call, start, [call, on_reply = std::move(on_reply)](const absl::Status& status) {
    if (!status.ok()) return on_reply(status);
    const auto& metadata = call->context.GetServerInitialMetadata();
    const auto& trailers = call->context.GetServerTrailingMetadata();
    const bool replayed = metadata.count("x-kinora-replayed") > 0 || trailers.count("x-kinora-replayed") > 0;
    on_reply(CreatedVideo{std::move(call->reply), replayed});
  });
}

FrontendCallPtr FrontendClient::EstimateVideo(const Caller& caller, v1::CreateVideoRequest request,
                                              OnReply<v1::Estimate> on_reply) {
  using Async = v1::VideoGeneration::StubInterface::async_interface;
  return Call<Async, v1::CreateVideoRequest, v1::Estimate>(videos_->async(), &Async::EstimateVideo, caller,
                                                           std::move(request), std::move(on_reply));
}

FrontendCallPtr FrontendClient::GetVideo(const Caller& caller, const std::string& id, OnReply<v1::Video> on_reply,
                                         int64_t link_seconds) {
  using Async = v1::VideoGeneration::StubInterface::async_interface;
  v1::GetVideoRequest request;
  request.set_id(id);
  request.set_link_seconds(link_seconds);
  return Call<Async, v1::GetVideoRequest, v1::Video>(videos_->async(), &Async::GetVideo, caller, std::move(request),
                                                     std::move(on_reply));
}

FrontendCallPtr FrontendClient::ListVideos(const Caller& caller, v1::ListVideosRequest request,
                                           OnReply<v1::ListVideosResponse> on_reply) {
  using Async = v1::VideoGeneration::StubInterface::async_interface;
  return Call<Async, v1::ListVideosRequest, v1::ListVideosResponse>(videos_->async(), &Async::ListVideos, caller,
                                                                    std::move(request), std::move(on_reply));
}

FrontendCallPtr FrontendClient::CancelVideo(const Caller& caller, const std::string& id, OnReply<v1::Video> on_reply) {
  using Async = v1::VideoGeneration::StubInterface::async_interface;
  v1::CancelVideoRequest request;
  request.set_id(id);
  return Call<Async, v1::CancelVideoRequest, v1::Video>(videos_->async(), &Async::CancelVideo, caller,
                                                        std::move(request), std::move(on_reply));
}

FrontendCallPtr FrontendClient::DeleteVideo(const Caller& caller, const std::string& id,
                                            OnReply<google::protobuf::Empty> on_reply) {
  using Async = v1::VideoGeneration::StubInterface::async_interface;
  v1::DeleteVideoRequest request;
  request.set_id(id);
  request.set_cancel(true);
  return Call<Async, v1::DeleteVideoRequest, google::protobuf::Empty>(videos_->async(), &Async::DeleteVideo, caller,
                                                                      std::move(request), std::move(on_reply));
}

FrontendCallPtr FrontendClient::ListModels(const Caller& caller, OnReply<v1::ListModelsResponse> on_reply) {
  using Async = v1::Models::StubInterface::async_interface;
  return Call<Async, google::protobuf::Empty, v1::ListModelsResponse>(models_->async(), &Async::ListModels, caller,
                                                                      google::protobuf::Empty(), std::move(on_reply));
}

FrontendCallPtr FrontendClient::ListWorkerGroups(const Caller& caller, OnReply<v1::ListWorkerGroupsResponse> on_reply) {
  using Async = v1::Admin::StubInterface::async_interface;
  return Call<Async, google::protobuf::Empty, v1::ListWorkerGroupsResponse>(
      admin_->async(), &Async::ListWorkerGroups, caller, google::protobuf::Empty(), std::move(on_reply));
}

FrontendCallPtr FrontendClient::CheckReady(std::function<void(absl::Status)> on_reply) {
  auto call = std::make_shared<UnaryCall<HealthCheckRequest, HealthCheckResponse>>(calls_.Begin(), probes_);
  call->context.set_deadline(GrpcDeadline(kReadyTimeout));
  call->request.set_service("kinora.v1.VideoGeneration");
  const auto start = [this, call](std::function<void(grpc::Status)> on_status) {
    grpc::TemplatedGenericStub<HealthCheckRequest, HealthCheckResponse> stub(channel_);
    stub.UnaryCall(&call->context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &call->request, &call->reply,
                   std::move(on_status));
  };
  return Begin(call, start, [this, call, on_reply = std::move(on_reply)](const absl::Status& status) {
    if (!status.ok()) {
      on_reply(absl::UnavailableError(absl::StrCat(address_, ": cannot be reached")));
    } else if (call->reply.status() != HealthCheckResponse::SERVING) {
      on_reply(absl::UnavailableError(absl::StrCat(address_, ": no worker group takes jobs")));
    } else {
      on_reply(absl::OkStatus());
    }
  });
}

FrontendCallPtr FrontendClient::UploadInput(const Caller& caller, std::shared_ptr<const SpoolFile> file,
                                            const std::string& media_type, OnReply<v1::Input> on_reply) {
  auto upload =
      std::make_shared<Upload>(calls_.Begin(), queue_, std::move(file),
                               [this, on_reply = std::move(on_reply)](const grpc::Status& status, v1::Input input) {
                                 if (!status.ok()) return on_reply(ToStatus(status));
                                 on_reply(std::move(input));
                               });
  Introduce(caller, upload->context());
  upload->Begin(*videos_, media_type);
  return upload;
}

FrontendCallPtr FrontendClient::GetInput(const Caller& caller, const std::string& sha256, OnReply<v1::Input> on_reply) {
  using Async = v1::VideoGeneration::StubInterface::async_interface;
  v1::GetInputRequest request;
  request.set_sha256(sha256);
  return Call<Async, v1::GetInputRequest, v1::Input>(videos_->async(), &Async::GetInput, caller, std::move(request),
                                                     std::move(on_reply));
}

std::shared_ptr<ReplyReader<v1::VideoEvent>> FrontendClient::WatchVideo(const Caller& caller,
                                                                        const v1::WatchVideoRequest& request) {
  const StreamConnections::Lease lease = streams_.Take();
  auto reader = std::make_shared<ReplyReader<v1::VideoEvent>>(lease, queue_);
  Introduce(caller, reader->context());
  reader->Begin([stub = lease.get(), request](grpc::ClientContext& context, auto* reactor) {
    stub->async()->WatchVideo(&context, &request, reactor);
  });
  return reader;
}

std::shared_ptr<ReplyReader<v1::ArtifactChunk>> FrontendClient::DownloadArtifact(
    const Caller& caller, const v1::DownloadArtifactRequest& request) {
  const StreamConnections::Lease lease = streams_.Take();
  auto reader = std::make_shared<ReplyReader<v1::ArtifactChunk>>(lease, queue_);
  Introduce(caller, reader->context());
  reader->Begin([stub = lease.get(), request](grpc::ClientContext& context, auto* reactor) {
    stub->async()->DownloadArtifact(&context, &request, reactor);
  });
  return reader;
}

}  // namespace kinora

#include "server/frontend/api/video_service.h"

#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/grpc_status.h"
#include "server/common/status_details.h"
#include "server/frontend/api/call_metadata.h"
#include "server/frontend/api/download_reactor.h"
#include "server/frontend/api/job_admission.h"
#include "server/frontend/api/message_check.h"
#include "server/frontend/api/parsed_request.h"
#include "server/frontend/api/watch_reactor.h"

namespace kinora {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 500;

// Ends a call with what the store answered.
Done<v1::Video> ReplyTo(ServiceContext& context, ServerUnaryReactor* reactor, v1::Video* reply) {
  return [&context, reactor, reply](absl::StatusOr<v1::Video> video) {
    if (video.ok()) {
      *reply = std::move(*video);
      AddLiveFields(context, *reply);
    }
    reactor->Finish(ToGrpcStatus(video.status()));
  };
}

ServerUnaryReactor* Refused(CallbackServerContext* call, const absl::Status& status) {
  auto* reactor = call->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

class RefusingUpload : public grpc::ServerReadReactor<v1::UploadInputRequest> {
 public:
  explicit RefusingUpload(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

template <typename T>
using Parsed = ParsedRequest<T>;
using CreateRequest = Parsed<v1::CreateVideoRequest>;

int MethodIndex(const char* name) {
  return v1::CreateVideoRequest::descriptor()
      ->file()
      ->FindServiceByName("VideoGeneration")
      ->FindMethodByName(name)
      ->index();
}

class VideoService : public v1::VideoGeneration::CallbackService {
 public:
  explicit VideoService(ServiceContext& context) : context_(context) {
    Unary("CreateVideo", &VideoService::Create);
    Streaming("GenerateVideo", &VideoService::Generate);
    Streaming("WatchVideo", &VideoService::Watch);
    Unary("GetVideo", &VideoService::Get);
    Unary("ListVideos", &VideoService::List);
    Unary("CancelVideo", &VideoService::Cancel);
    Unary("DeleteVideo", &VideoService::Delete);
    Unary("EstimateVideo", &VideoService::Estimate);
    Unary("GetInput", &VideoService::FindInput);
    Streaming("DownloadArtifact", &VideoService::Download);
  }

  grpc::ServerReadReactor<v1::UploadInputRequest>* UploadInput(CallbackServerContext* call, v1::Input*) override {
    const absl::Status status = Authorize(*call);
    return new RefusingUpload(status.ok() ? NotAvailableYet("UploadInput") : status);
  }

 private:
  template <typename Reply>
  using Stream = grpc::ServerWriteReactor<Reply>;

  // Registers a method as the generated code does it, with a request type of our own.
  template <typename Request, typename Reply>
  void Unary(const char* name,
             ServerUnaryReactor* (VideoService::*method)(CallbackServerContext*, const Parsed<Request>&, Reply*)) {
    MarkMethodCallback(MethodIndex(name), new grpc::internal::CallbackUnaryHandler<Parsed<Request>, Reply>(
                                              [this, method](auto* call, const Parsed<Request>* request, Reply* reply) {
                                                return (this->*method)(call, *request, reply);
                                              }));
  }
  template <typename Request, typename Reply>
  void Streaming(const char* name,
                 Stream<Reply>* (VideoService::*method)(CallbackServerContext*, const Parsed<Request>&)) {
    MarkMethodCallback(MethodIndex(name), new grpc::internal::CallbackServerStreamingHandler<Parsed<Request>, Reply>(
                                              [this, method](auto* call, const Parsed<Request>* request) {
                                                return (this->*method)(call, *request);
                                              }));
  }

  ServerUnaryReactor* Create(CallbackServerContext* call, const CreateRequest& request, v1::Video* reply) {
    if (const auto status = Check(*call, request); !status.ok()) return Refused(call, status);
    auto* reactor = call->DefaultReactor();
    Admit(context_, request.message, /*tied=*/false, [this, call, reactor, reply](absl::StatusOr<Created> created) {
      if (created.ok() && created->replayed) call->AddInitialMetadata("x-kinora-replayed", "true");
      if (!created.ok()) return reactor->Finish(ToGrpcStatus(created.status()));
      ReplyTo(context_, reactor, reply)(std::move(created->video));
    });
    return reactor;
  }

  Stream<v1::VideoEvent>* Generate(CallbackServerContext* call, const CreateRequest& request) {
    WatchReactor::LeftListener on_left;
    if (!request.message.detach()) on_left = [this](const JobId& id) { context_.housekeeper.ClientLeft(id); };
    auto reactor = WatchReactor::Make(context_, std::move(on_left));
    if (const auto status = Check(*call, request); !status.ok()) {
      reactor->Fail(status);
      return reactor.get();
    }
    Admit(context_, request.message, /*tied=*/true, [call, reactor](absl::StatusOr<Created> created) {
      if (!created.ok()) return reactor->Fail(created.status());
      if (created->replayed) reactor->AddReplayedMetadata(*call);
      reactor->Watch(created->video.id(), 0);
    });
    return reactor.get();
  }

  Stream<v1::VideoEvent>* Watch(CallbackServerContext* call, const Parsed<v1::WatchVideoRequest>& parsed) {
    const v1::WatchVideoRequest& request = parsed.message;
    auto reactor = WatchReactor::Make(context_);
    if (const auto status = Check(*call, parsed); !status.ok()) {
      reactor->Fail(status);
    } else if (request.after_sequence() < 0) {
      reactor->Fail(InvalidField("after_sequence", "must be 0 or more; nearest: 0"));
    } else {
      reactor->Watch(request.id(), request.after_sequence());
    }
    return reactor.get();
  }

  ServerUnaryReactor* Get(CallbackServerContext* call, const Parsed<v1::GetVideoRequest>& parsed, v1::Video* reply) {
    const v1::GetVideoRequest& request = parsed.message;
    if (const auto status = Check(*call, parsed); !status.ok()) return Refused(call, status);
    auto* reactor = call->DefaultReactor();
    context_.store.Get(request.id(), ReplyTo(context_, reactor, reply));
    return reactor;
  }

  ServerUnaryReactor* List(CallbackServerContext* call, const Parsed<v1::ListVideosRequest>& parsed,
                           v1::ListVideosResponse* reply) {
    const v1::ListVideosRequest& request = parsed.message;
    if (const auto status = Check(*call, parsed); !status.ok()) return Refused(call, status);
    if (request.page_size() < 0) return Refused(call, InvalidField("page_size", "must be 0 or more; nearest: 0"));
    ListOptions options{.page_token = request.page_token()};
    options.page_size = request.page_size() == 0 ? kDefaultPage : std::min(request.page_size(), kMaxPage);
    for (const int state : request.states()) options.states.push_back(static_cast<v1::Video::State>(state));
    auto* reactor = call->DefaultReactor();
    context_.store.List(options, [this, reactor, reply](absl::StatusOr<JobPage> page) {
      if (!page.ok()) return reactor->Finish(ToGrpcStatus(page.status()));
      for (v1::Video& video : page->videos) {
        AddLiveFields(context_, video);
        *reply->add_videos() = std::move(video);
      }
      reply->set_next_page_token(page->next_page_token);
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }

  ServerUnaryReactor* Cancel(CallbackServerContext* call, const Parsed<v1::CancelVideoRequest>& parsed,
                             v1::Video* reply) {
    const v1::CancelVideoRequest& request = parsed.message;
    if (const auto status = Check(*call, parsed); !status.ok()) return Refused(call, status);
    auto* reactor = call->DefaultReactor();
    CancelJob(context_.store, context_.queue, context_.cancel_run, request.id(), ReplyTo(context_, reactor, reply));
    return reactor;
  }

  ServerUnaryReactor* Delete(CallbackServerContext* call, const Parsed<v1::DeleteVideoRequest>& parsed,
                             google::protobuf::Empty*) {
    const v1::DeleteVideoRequest& request = parsed.message;
    if (const auto status = Check(*call, parsed); !status.ok()) return Refused(call, status);
    auto* reactor = call->DefaultReactor();
    context_.store.Delete(request.id(), [this, reactor, id = request.id()](const absl::Status& status) {
      if (!status.ok()) return reactor->Finish(ToGrpcStatus(status));
      context_.housekeeper.Remove(id,
                                  [reactor](const absl::Status& removed) { reactor->Finish(ToGrpcStatus(removed)); });
    });
    return reactor;
  }

  ServerUnaryReactor* Estimate(CallbackServerContext* call, const CreateRequest& request, v1::Estimate* reply) {
    if (const auto status = Check(*call, request); !status.ok()) return Refused(call, status);
    auto* reactor = call->DefaultReactor();
    Validate(context_, request.message, [this, reactor, reply](absl::StatusOr<Validated> validated) {
      if (!validated.ok()) return reactor->Finish(ToGrpcStatus(validated.status()));
      context_.estimate(validated->request.model(), validated->effective,
                        [reactor, reply, effective = validated->effective](absl::StatusOr<v1::Estimate> estimate) {
                          if (estimate.ok()) {
                            *reply = std::move(*estimate);
                            *reply->mutable_effective() = effective;
                          }
                          reactor->Finish(ToGrpcStatus(estimate.status()));
                        });
    });
    return reactor;
  }

  ServerUnaryReactor* FindInput(CallbackServerContext* call, const Parsed<v1::GetInputRequest>& request, v1::Input*) {
    const absl::Status status = Check(*call, request);
    return Refused(call, status.ok() ? NotAvailableYet("GetInput") : status);
  }

  Stream<v1::ArtifactChunk>* Download(CallbackServerContext* call, const Parsed<v1::DownloadArtifactRequest>& request) {
    auto reactor = DownloadReactor::Make(context_);
    if (const auto status = Check(*call, request); !status.ok()) {
      reactor->Fail(status);
    } else {
      reactor->Download(request.message);
    }
    return reactor.get();
  }

  absl::Status Authorize(const CallbackServerContext& call) const { return context_.tokens.Check(Authorization(call)); }

  absl::Status Check(const CallbackServerContext& call, const CreateRequest& request) const {
    const absl::Status status = Authorize(call);
    if (status.ok() && !request.status.ok()) context_.metrics.CountRefused("", {}, request.status);
    return status.ok() ? request.status : status;
  }

  template <typename Request>
  absl::Status Check(const CallbackServerContext& call, const Parsed<Request>& request) const {
    if (auto status = Authorize(call); !status.ok()) return status;
    if (!request.status.ok()) return request.status;
    const auto violations = CheckMessage(request.message);
    return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
  }

  ServiceContext& context_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeVideoService(ServiceContext& context) {
  return std::make_unique<VideoService>(context);
}

}  // namespace kinora

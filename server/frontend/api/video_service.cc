#include "server/frontend/api/video_service.h"

#include <algorithm>
#include <utility>

#include "kinora/v1/video_generation.pb.h"
#include "server/common/status_details.h"
#include "server/frontend/api/artifact_links.h"
#include "server/frontend/api/download_reactor.h"
#include "server/frontend/api/job_admission.h"
#include "server/frontend/api/method_service.h"
#include "server/frontend/api/upload_reactor.h"
#include "server/frontend/api/watch_reactor.h"
#include "server/frontend/jobs/prompt_words.h"
#include "server/request/input_refs.h"

namespace kinora {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 500;

class VideoService : public MethodService {
 public:
  VideoService(ServiceContext& context, const CallAccess& access)
      : MethodService(v1::CreateVideoRequest::descriptor()->file()->FindServiceByName("VideoGeneration"), access),
        context_(context),
        access_(access) {
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
    ClientStreaming("UploadInput", &VideoService::Upload);
  }

 private:
  // Replies with the store's answer.
  Done<v1::Video> ReplyTo(UnaryReply<v1::Video> reply) {
    return [this, reply](absl::StatusOr<v1::Video> video) {
      if (video.ok()) AddLiveFields(context_, *video);
      reply(video);
    };
  }

  void Create(const v1::CreateVideoRequest& request, UnaryReply<v1::Video> reply) {
    Admit(context_, request, /*tied=*/false, [this, reply](absl::StatusOr<Created> created) {
      if (!created.ok()) return reply(created.status());
      if (created->replayed) reply.AddMetadata("x-kinora-replayed", "true");
      ReplyTo(reply)(std::move(created->video));
    });
  }

  ReplyStream<v1::VideoEvent>* Generate(grpc::CallbackServerContext& call, const v1::CreateVideoRequest& request) {
    WatchReactor::LeftListener on_left;
    if (!request.detach()) on_left = [this](const JobId& id) { context_.client_left(id); };
    auto reactor = WatchReactor::Make(context_, std::move(on_left));
    Admit(context_, request, /*tied=*/true, [&call, reactor](absl::StatusOr<Created> created) {
      if (!created.ok()) return reactor->Fail(created.status());
      if (created->replayed) reactor->AddReplayedMetadata(call);
      reactor->Watch(created->video.id(), 0);
    });
    return reactor.get();
  }

  ReplyStream<v1::VideoEvent>* Watch(grpc::CallbackServerContext&, const v1::WatchVideoRequest& request) {
    auto reactor = WatchReactor::Make(context_);
    if (request.after_sequence() < 0) {
      reactor->Fail(InvalidField("after_sequence", "must be 0 or more; nearest: 0"));
    } else {
      reactor->Watch(request.id(), request.after_sequence());
    }
    return reactor.get();
  }

  void Get(const v1::GetVideoRequest& request, UnaryReply<v1::Video> reply) {
    if (request.link_seconds() == 0) return context_.store.Get(request.id(), ReplyTo(reply));
    const absl::Status valid = CheckLinkSeconds(request.link_seconds());
    if (!valid.ok()) return reply(valid);
    context_.store.Get(request.id(), [this, reply, seconds = request.link_seconds()](absl::StatusOr<v1::Video> video) {
      if (!video.ok()) return reply(video.status());
      AddLiveFields(context_, *video);
      context_.disk.Next().Post([this, reply, seconds, video = *std::move(video)]() mutable {
        const absl::Status linked = AddLinks(context_.artifacts, seconds, video);
        linked.ok() ? reply(video) : reply(linked);
      });
    });
  }

  void List(const v1::ListVideosRequest& request, UnaryReply<v1::ListVideosResponse> reply) {
    if (request.page_size() < 0) return reply(InvalidField("page_size", "must be 0 or more; nearest: 0"));
    if (!request.after_id().empty() && !request.page_token().empty()) {
      return reply(InvalidField("after_id", "cannot be combined with page_token; omit one of them"));
    }
    absl::StatusOr<std::vector<std::string>> words = SearchWords(request.text());
    if (!words.ok()) return reply(words.status());
    ListOptions options{.page_token = request.page_token()};
    options.words = *std::move(words);
    options.after_id = request.after_id();
    options.ascending = request.ascending();
    options.page_size = request.page_size() == 0 ? kDefaultPage : std::min(request.page_size(), kMaxPage);
    options.id_prefix = request.id_prefix();
    options.labels = {request.labels().begin(), request.labels().end()};
    for (const int state : request.states()) options.states.push_back(static_cast<v1::Video::State>(state));
    context_.store.List(options, [this, reply](absl::StatusOr<JobPage> page) {
      if (!page.ok()) return reply(page.status());
      v1::ListVideosResponse listed;
      for (v1::Video& video : page->videos) {
        AddLiveFields(context_, video);
        *listed.add_videos() = std::move(video);
      }
      listed.set_next_page_token(page->next_page_token);
      reply(listed);
    });
  }

  void Cancel(const v1::CancelVideoRequest& request, UnaryReply<v1::Video> reply) {
    CancelJob(context_.store, context_.queue, context_.cancel_run, request.id(), ReplyTo(reply));
  }

  void Delete(const v1::DeleteVideoRequest& request, UnaryReply<google::protobuf::Empty> reply) {
    const auto on_hidden = [this, reply, id = request.id()](const absl::Status& status) {
      if (!status.ok()) return reply(status);
      context_.housekeeper.Remove(id, [reply](const absl::Status& removed) {
        removed.ok() ? reply(google::protobuf::Empty()) : reply(removed);
      });
    };
    if (!request.cancel()) return context_.store.Delete(request.id(), on_hidden);
    context_.store.CancelAndDelete(
        request.id(), [this, reply, on_hidden, id = request.id()](const absl::StatusOr<bool>& hidden) {
          if (!hidden.ok()) return reply(hidden.status());
          context_.queue.Remove(id);
          context_.cancel_run(id);
          *hidden ? on_hidden(absl::OkStatus()) : reply(google::protobuf::Empty());  // the housekeeper removes it later
        });
  }

  void Estimate(const v1::CreateVideoRequest& request, UnaryReply<v1::Estimate> reply) {
    Validate(context_, request, [this, reply](absl::StatusOr<Validated> validated) {
      if (!validated.ok()) return reply(validated.status());
      // CreateVideo would reject a request with an unusable input, too.
      const auto refs = InputRefsOf(validated->effective);  // before the request moves into the callback
      context_.inputs.Require(refs, [this, reply, validated = *std::move(validated)](const absl::Status& status) {
        status.ok() ? EstimateValid(validated, reply) : reply(status);
      });
    });
  }

  void EstimateValid(const Validated& validated, const UnaryReply<v1::Estimate>& reply) {
    context_.estimate(validated.request.model(), validated.effective,
                      [reply, effective = validated.effective](absl::StatusOr<v1::Estimate> estimate) {
                        if (estimate.ok()) *estimate->mutable_effective() = effective;
                        reply(estimate);
                      });
  }

  RequestStream<v1::UploadInputRequest, v1::Input>* Upload(grpc::CallbackServerContext& call) {
    return UploadReactor::Make(context_, ClientOf(call, access_)).get();
  }

  void FindInput(const v1::GetInputRequest& request, UnaryReply<v1::Input> reply) {
    context_.inputs.Find(request.sha256(), reply);
  }

  ReplyStream<v1::ArtifactChunk>* Download(grpc::CallbackServerContext& call,
                                           const v1::DownloadArtifactRequest& request) {
    auto reactor = DownloadReactor::Make(context_, call);
    reactor->Download(request, ClientOf(call, access_));
    return reactor.get();
  }

  void OnBadRequest(const google::protobuf::Message& request, const absl::Status& status) override {
    if (request.GetDescriptor() == v1::CreateVideoRequest::descriptor()) context_.metrics.CountRefused("", {}, status);
  }

  ServiceContext& context_;
  const CallAccess access_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeVideoService(ServiceContext& context, const CallAccess& access) {
  return std::make_unique<VideoService>(context, access);
}

}  // namespace kinora

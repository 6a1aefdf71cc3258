#include "tests/server/gateway/scripted_frontend.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/net/grpc_status.h"
#include "tests/server/gateway/mapping_fixtures.h"

namespace kinora {
namespace {

using google::protobuf::Empty;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

std::unique_ptr<FrontendClient> ConnectTo(const std::string& address) {
  const auto connect = [address] {
    grpc::ChannelArguments apart;
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), apart);
  };
  return std::make_unique<FrontendClient>(address, connect, absl::Seconds(10));
}

// Sends the job and stays open until its client leaves.
class OpenWatch : public grpc::ServerWriteReactor<v1::VideoEvent> {
 public:
  explicit OpenWatch(v1::Video video) {
    event_.set_video_id(video.id());
    *event_.mutable_snapshot() = std::move(video);
    StartWrite(&event_);
  }
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  v1::VideoEvent event_;
};

}  // namespace

class ScriptedFrontend::Service : public v1::VideoGeneration::CallbackService, public v1::Models::CallbackService {
 public:
  explicit Service(std::string prefix) : prefix_(std::move(prefix)) {}

  ServerUnaryReactor* CreateVideo(CallbackServerContext* context, const v1::CreateVideoRequest* request,
                                  v1::Video* reply) override {
    absl::MutexLock lock(&mu_);
    return Finish(context, Begin("CreateVideo", [&] {
                    const std::string id = absl::StrCat(prefix_, "-", ++created_);
                    Add(id, 1'000'000 + created_).set_model(request->model());
                    *reply = jobs_[id];
                    return absl::OkStatus();
                  }));
  }
  ServerUnaryReactor* GetVideo(CallbackServerContext* context, const v1::GetVideoRequest* request,
                               v1::Video* reply) override {
    absl::MutexLock lock(&mu_);
    return Finish(context, Begin("GetVideo", [&] { return Find(request->id(), *reply); }));
  }
  ServerUnaryReactor* ListVideos(CallbackServerContext* context, const v1::ListVideosRequest* request,
                                 v1::ListVideosResponse* reply) override {
    absl::MutexLock lock(&mu_);
    return Finish(context, Begin("ListVideos", [&] { return List(*request, *reply); }));
  }
  ServerUnaryReactor* ListModels(CallbackServerContext* context, const Empty*, v1::ListModelsResponse* reply) override {
    absl::MutexLock lock(&mu_);
    return Finish(context, Begin("ListModels", [&] {
                    *reply->add_models() = DevModel();
                    reply->mutable_models(0)->set_id(model_);
                    return absl::OkStatus();
                  }));
  }
  grpc::ServerWriteReactor<v1::VideoEvent>* WatchVideo(CallbackServerContext*,
                                                       const v1::WatchVideoRequest* request) override {
    absl::MutexLock lock(&mu_);
    calls_.emplace_back("WatchVideo");
    return new OpenWatch(jobs_[request->id()]);
  }

  v1::Video& Add(const std::string& id, int created_seconds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    v1::Video& video = jobs_[id];
    video.set_id(id);
    video.set_state(v1::Video::QUEUED);
    video.mutable_create_time()->set_seconds(created_seconds);
    return video;
  }

  absl::Mutex mu_;
  std::string model_ ABSL_GUARDED_BY(mu_) = "ltx";
  std::map<std::string, absl::Status> rejections_ ABSL_GUARDED_BY(mu_);  // by method
  int most_on_page_ ABSL_GUARDED_BY(mu_) = 1000;
  bool empty_first_page_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mu_);

 private:
  template <typename Answer>
  absl::Status Begin(const std::string& method, Answer answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    calls_.push_back(method);
    const auto rejection = rejections_.find(method);
    return rejection == rejections_.end() ? answer() : rejection->second;
  }
  static ServerUnaryReactor* Finish(CallbackServerContext* context, const absl::Status& status) {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }

  absl::Status Find(const std::string& id, v1::Video& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) return absl::NotFoundError(absl::StrCat("id: there is no job ", id));
    reply = job->second;
    return absl::OkStatus();
  }

  // The page token is the number of videos before the page.
  absl::Status List(const v1::ListVideosRequest& request, v1::ListVideosResponse& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::vector<v1::Video> all;
    for (const auto& [id, video] : jobs_) all.push_back(video);
    std::stable_sort(all.begin(), all.end(), [&](const v1::Video& a, const v1::Video& b) {
      return request.ascending() ? a.create_time().seconds() < b.create_time().seconds()
                                 : a.create_time().seconds() > b.create_time().seconds();
    });
    size_t from = 0;
    if (!request.after_id().empty()) {
      const auto after = std::find_if(all.begin(), all.end(),
                                      [&](const v1::Video& video) { return video.id() == request.after_id(); });
      if (after == all.end()) return absl::NotFoundError("after_id: there is no such job");
      from = static_cast<size_t>(after - all.begin()) + 1;
    } else if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &from)) {
      return absl::InvalidArgumentError("page_token");
    } else if (request.page_token().empty() && empty_first_page_) {
      reply.set_next_page_token("0");
      return absl::OkStatus();
    }
    const size_t to = std::min(all.size(), from + static_cast<size_t>(std::min(request.page_size(), most_on_page_)));
    for (size_t i = from; i < to; ++i) *reply.add_videos() = all[i];
    if (to < all.size()) reply.set_next_page_token(absl::StrCat(to));
    return absl::OkStatus();
  }

  const std::string prefix_;
  int created_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, v1::Video> jobs_ ABSL_GUARDED_BY(mu_);
};

struct ScriptedFrontend::Server {
  std::unique_ptr<grpc::Server> server;
};

ScriptedFrontend::ScriptedFrontend(const std::string& prefix)
    : address_(absl::StrCat("unix:", directory_.File("api.sock"))),
      service_(std::make_unique<Service>(prefix)),
      server_(std::make_unique<Server>()) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 128);
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(static_cast<v1::VideoGeneration::CallbackService*>(service_.get()));
  builder.RegisterService(static_cast<v1::Models::CallbackService*>(service_.get()));
  server_->server = builder.BuildAndStart();
  KINORA_CHECK(server_->server != nullptr) << address_;
}
ScriptedFrontend::~ScriptedFrontend() { server_->server->Shutdown(std::chrono::system_clock::now()); }

std::unique_ptr<FrontendClient> ScriptedFrontend::Connect() const { return ConnectTo(address_); }

void ScriptedFrontend::AddJob(const std::string& id, int created_seconds) {
  absl::MutexLock lock(&service_->mu_);
  service_->Add(id, created_seconds);
}
void ScriptedFrontend::SetModel(const std::string& id) {
  absl::MutexLock lock(&service_->mu_);
  service_->model_ = id;
}
void ScriptedFrontend::Reject(const std::string& method, absl::Status status) {
  absl::MutexLock lock(&service_->mu_);
  service_->rejections_[method] = std::move(status);
}
void ScriptedFrontend::SetMostOnPage(int videos) {
  absl::MutexLock lock(&service_->mu_);
  service_->most_on_page_ = videos;
  service_->empty_first_page_ = true;
}
std::vector<std::string> ScriptedFrontend::Calls() const {
  absl::MutexLock lock(&service_->mu_);
  return service_->calls_;
}

std::unique_ptr<FrontendClient> ConnectToNobody() {
  const TemporaryDirectory removed;
  return ConnectTo(absl::StrCat("unix:", removed.File("api.sock")));
}

}  // namespace kinora

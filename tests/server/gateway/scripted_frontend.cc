#include "tests/server/gateway/scripted_frontend.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <chrono>
#include <functional>
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

std::unique_ptr<FrontendClient> ConnectTo(const std::string& address, const CallQueueLimits& limits = {}) {
  const auto connect = [address] {
    grpc::ChannelArguments apart;
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), apart);
  };
  return std::make_unique<FrontendClient>(address, connect, absl::Minutes(1), limits);
}

// Sends the job and stays open until its client leaves or the job ends.
class OpenWatch : public grpc::ServerWriteReactor<v1::VideoEvent> {
 public:
  static std::shared_ptr<OpenWatch> Start(const v1::Video& video) {
    auto watch = std::make_shared<OpenWatch>();
    watch->self_ = watch;
    watch->first_.set_video_id(video.id());
    *watch->first_.mutable_snapshot() = video;
    watch->StartWrite(&watch->first_);
    return watch;
  }
  void End(const v1::Video& video) {
    absl::MutexLock lock(&mu_);
    last_.set_video_id(video.id());
    *last_.mutable_terminal() = video;
    SendLast();
  }

  void OnWriteDone(bool) override {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    SendLast();
  }
  void OnCancel() override {
    absl::MutexLock lock(&mu_);
    if (!std::exchange(finished_, true)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { self_.reset(); }

 private:
  void SendLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || !last_.has_terminal() || std::exchange(finished_, true)) return;
    StartWriteAndFinish(&last_, grpc::WriteOptions(), grpc::Status::OK);
  }

  std::shared_ptr<OpenWatch> self_;  // until OnDone
  absl::Mutex mu_;
  v1::VideoEvent first_;
  v1::VideoEvent last_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = true, finished_ ABSL_GUARDED_BY(mu_) = false;
};

// Reads the header of a file, answers that it is a picture, and leaves the end to its owner.
class OpenUpload : public grpc::ServerReadReactor<v1::UploadInputRequest> {
 public:
  OpenUpload(v1::Input* reply, std::function<void(OpenUpload*)> on_header)
      : reply_(reply), on_header_(std::move(on_header)) {
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    reply_->set_media_type("image/png");
    reply_->set_id(request_.header().sha256());
    StartSendInitialMetadata();
    on_header_(this);
  }
  void OnDone() override { delete this; }

 private:
  v1::Input* const reply_;
  const std::function<void(OpenUpload*)> on_header_;
  v1::UploadInputRequest request_;
};

}  // namespace

class ScriptedFrontend::Service : public v1::VideoGeneration::CallbackService, public v1::Models::CallbackService {
 public:
  explicit Service(std::string prefix) : prefix_(std::move(prefix)) {}

  ServerUnaryReactor* CreateVideo(CallbackServerContext* context, const v1::CreateVideoRequest* request,
                                  v1::Video* reply) override {
    absl::MutexLock lock(&mu_);
    return Finish(context, Begin("CreateVideo", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                    const std::string id = absl::StrCat(prefix_, "-", ++created_);
                    Add(id, 1'000'000 + created_).set_model(request->model());
                    *reply = jobs_[id];
                    return absl::OkStatus();
                  }));
  }
  ServerUnaryReactor* GetVideo(CallbackServerContext* context, const v1::GetVideoRequest* request,
                               v1::Video* reply) override {
    absl::MutexLock lock(&mu_);
    for (const auto& weak : ending_) {
      if (const auto watch = weak.lock()) watch->End(jobs_[request->id()]);
    }
    ending_.clear();
    const absl::Status status =
        Begin("GetVideo", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return Find(request->id(), *reply); });
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    Answer("GetVideo", [reactor, status] { reactor->Finish(ToGrpcStatus(status)); });
    return reactor;
  }
  grpc::ServerReadReactor<v1::UploadInputRequest>* UploadInput(CallbackServerContext*, v1::Input* reply) override {
    return new OpenUpload(reply, [this](OpenUpload* upload) {
      absl::MutexLock lock(&mu_);
      calls_.emplace_back("UploadInput");
      Answer("UploadInput", [upload] { upload->Finish(grpc::Status::OK); });
    });
  }
  ServerUnaryReactor* ListVideos(CallbackServerContext* context, const v1::ListVideosRequest* request,
                                 v1::ListVideosResponse* reply) override {
    absl::MutexLock lock(&mu_);
    return Finish(context,
                  Begin("ListVideos", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return List(*request, *reply); }));
  }
  ServerUnaryReactor* ListModels(CallbackServerContext* context, const Empty*, v1::ListModelsResponse* reply) override {
    absl::MutexLock lock(&mu_);
    return Finish(context, Begin("ListModels", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                    *reply->add_models() = DevModel();
                    reply->mutable_models(0)->set_id(model_);
                    return absl::OkStatus();
                  }));
  }
  grpc::ServerWriteReactor<v1::VideoEvent>* WatchVideo(CallbackServerContext*,
                                                       const v1::WatchVideoRequest* request) override {
    absl::MutexLock lock(&mu_);
    calls_.emplace_back("WatchVideo");
    const std::shared_ptr<OpenWatch> watch = OpenWatch::Start(jobs_[request->id()]);
    watches_[request->id()].push_back(watch);
    return watch.get();
  }

  void EndQuietly(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    jobs_[id].set_state(v1::Video::COMPLETED);
    ending_ = watches_[id];
  }

  v1::Video& Add(const std::string& id, int created_seconds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    v1::Video& video = jobs_[id];
    video.set_id(id);
    video.set_state(v1::Video::QUEUED);
    video.mutable_create_time()->set_seconds(created_seconds);
    return video;
  }

  void Release(const std::string& method) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    const std::vector<std::function<void()>> answers = std::move(held_.at(method));
    held_.erase(method);
    for (const auto& answer : answers) answer();
  }

  absl::Mutex mu_;
  std::map<std::string, std::vector<std::function<void()>>> held_ ABSL_GUARDED_BY(mu_);  // answers, by method
  std::string model_ ABSL_GUARDED_BY(mu_) = "ltx";
  std::map<std::string, absl::Status> rejections_ ABSL_GUARDED_BY(mu_);  // by method
  int most_on_page_ ABSL_GUARDED_BY(mu_) = 1000;
  bool empty_first_page_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mu_);

 private:
  template <typename Result>
  absl::Status Begin(const std::string& method, Result answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    calls_.push_back(method);
    const auto rejection = rejections_.find(method);
    return rejection == rejections_.end() ? answer() : rejection->second;
  }
  void Answer(const std::string& method, std::function<void()> answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto held = held_.find(method);
    held == held_.end() ? answer() : held->second.push_back(std::move(answer));
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
  std::map<std::string, std::vector<std::weak_ptr<OpenWatch>>> watches_ ABSL_GUARDED_BY(mu_);  // by job
  std::vector<std::weak_ptr<OpenWatch>> ending_ ABSL_GUARDED_BY(mu_);  // until the next GetVideo
};

struct ScriptedFrontend::Server {
  std::unique_ptr<grpc::Server> server;
};

ScriptedFrontend::ScriptedFrontend(const std::string& prefix)
    : address_(absl::StrCat("unix:", directory_.File("api.sock"))),
      service_(std::make_unique<Service>(prefix)),
      server_(std::make_unique<Server>()) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 128);
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(static_cast<v1::VideoGeneration::CallbackService*>(service_.get()));
  builder.RegisterService(static_cast<v1::Models::CallbackService*>(service_.get()));
  server_->server = builder.BuildAndStart();
  KINORA_CHECK(server_->server != nullptr) << address_;
  server_->server->GetHealthCheckService()->SetServingStatus("kinora.v1.VideoGeneration", true);
}
ScriptedFrontend::~ScriptedFrontend() { server_->server->Shutdown(std::chrono::system_clock::now()); }

std::unique_ptr<FrontendClient> ScriptedFrontend::Connect(const CallQueueLimits& limits) const {
  return ConnectTo(address_, limits);
}

void ScriptedFrontend::AddJob(const std::string& id, int created_seconds) {
  absl::MutexLock lock(&service_->mu_);
  service_->Add(id, created_seconds);
}
void ScriptedFrontend::EndJobQuietly(const std::string& id) {
  absl::MutexLock lock(&service_->mu_);
  service_->EndQuietly(id);
}
void ScriptedFrontend::SetModel(const std::string& id) {
  absl::MutexLock lock(&service_->mu_);
  service_->model_ = id;
}
void ScriptedFrontend::Reject(const std::string& method, absl::Status status) {
  absl::MutexLock lock(&service_->mu_);
  service_->rejections_[method] = std::move(status);
}
void ScriptedFrontend::Hold(const std::string& method) {
  absl::MutexLock lock(&service_->mu_);
  service_->held_.try_emplace(method);
}
void ScriptedFrontend::Release(const std::string& method) { service_->Release(method); }
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

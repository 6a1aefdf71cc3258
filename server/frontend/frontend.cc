#include "server/frontend/frontend.h"

#include <atomic>
#include <limits>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/build_version.h"
#include "server/common/metrics.h"
#include "server/common/status_details.h"
#include "server/config/config.h"
#include "server/frontend/api/frontend_server.h"
#include "server/frontend/api/job_admission.h"
#include "server/frontend/artifacts/artifact_checks.h"
#include "server/frontend/artifacts/artifact_home.h"
#include "server/frontend/frontend_sharing.h"
#include "server/frontend/gateway_supervisor.h"
#include "server/frontend/groups/artifact_intake.h"
#include "server/frontend/groups/dispatcher.h"
#include "server/frontend/groups/group_supervisor.h"
#include "server/frontend/groups/input_supply.h"
#include "server/frontend/groups/join_service.h"
#include "server/frontend/groups/resume_files.h"
#include "server/frontend/groups_view.h"
#include "server/frontend/inputs/input_store.h"
#include "server/frontend/jobs/frontend_lease.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/random_id.h"
#include "server/frontend/jobs/shared_events.h"
#include "server/frontend/jobs/state_directory.h"
#include "server/frontend/known_models.h"
#include "server/frontend/model_files.h"
#include "server/frontend/stores.h"
#include "server/frontend/wrong_start.h"
#include "server/net/grpc_credentials.h"
#include "server/net/http_pages.h"

namespace kinora {
namespace {

constexpr int kHeartbeatsInTime = 5;                        // heartbeats that a worker should send within the timeout
constexpr absl::Duration kLeaveStreams = absl::Seconds(2);  // for ranks of other hosts to hear that they are to leave
constexpr int64_t kMostTidied = 1000;                       // ended jobs, whose files a bucket is asked for
constexpr absl::Duration kLook = absl::Seconds(2);          // between looks for changes whose answers were lost
constexpr absl::Duration kCutStreams = absl::Seconds(1);    // for open watches to receive the end of their stream

absl::StatusOr<TokenSet> LoadTokens(const std::string& path) {
  return path.empty() ? absl::StatusOr<TokenSet>(TokenSet()) : TokenSet::Load(path);
}

Finished LogRecovered(const JobId& id) {
  return [id](const absl::Status& status) {
    Log(Severity::kInfo, "job_recovered", {{"job", id}, {"status", status.ToString()}});
  };
}

class EmbeddedFrontend : public Frontend {
 public:
  EmbeddedFrontend(const v1::FrontendConfig& config, Clocks clocks, StateDirectory state)
      : config_(config), clocks_(clocks), clock_(clocks.date), state_(std::move(state)) {}
  ~EmbeddedFrontend() override { Stop(); }

  absl::Status Start() {
    KINORA_ASSIGN_OR_RETURN(home_, OpenArtifactHome(config_, state_, clocks_, metrics_));
    MakeQueueAndHub();
    KINORA_RETURN_IF_ERROR(OpenStore());
    KINORA_ASSIGN_OR_RETURN(
        auto models, BeginWithKnownModels(config_, stores_->catalogue(), stores_->jobs(), metrics_, queue_metrics_));
    KINORA_RETURN_IF_ERROR(OpenInputs());
    KINORA_RETURN_IF_ERROR(sharing_->Start([this](const JobId& id) { CancelLeft(id); }));
    MakeDispatcher(std::move(models));
    KINORA_RETURN_IF_ERROR(Recover());
    KINORA_RETURN_IF_ERROR(StartServers());
    KINORA_ASSIGN_OR_RETURN(gateway_, GatewaySupervisor::Bind(config_, clocks_.steady));
    KINORA_RETURN_IF_ERROR(StartGroups());
    KINORA_RETURN_IF_ERROR(StartPages());
    if (gateway_ != nullptr) gateway_->Start();
    return absl::OkStatus();
  }

  void Drain() override {
    if (std::exchange(drained_, true)) return;
    Log(Severity::kInfo, "draining",
        {{"queued", queue_->size()},
         {"grace_seconds", config_.drain_grace_seconds()},
         {"once_more", "a second signal stops the frontend at once; running jobs are then restarted"}});
    draining_ = true;
    queue_->Close();
    sharing_->BeginDrain();
    server_->SetAccepting(false);
    dispatcher_->Drain(absl::Seconds(config_.drain_grace_seconds()));
    Stop();
    Log(Severity::kInfo, "drained");
  }

  void SetWrongStartListener(std::function<void(const absl::Status&)> listener) override {
    wrong_start_.SetListener(std::move(listener));
  }

  int port() const override { return server_ == nullptr ? 0 : server_->port(); }
  int join_port() const override { return join_port_ == nullptr ? 0 : join_port_->port(); }
  std::string page() const override { return gateway_ == nullptr ? "" : gateway_->page(); }
  int http_port() const override { return pages_ == nullptr ? 0 : pages_->port(); }

 private:
  void MakeQueueAndHub() {
    hub_ =
        std::make_unique<EventHub>(clock_, absl::Seconds(config_.heartbeat_interval_seconds()), config_.max_watchers());
    queue_ = std::make_unique<JobQueue>(
        config_.queue_capacity(), [this](const QueuedJob& job, int change) { queue_metrics_.Change(job, change); });
    disk_ = std::make_unique<EventLanes>(clock_, home_->artifacts().lanes());
  }

  absl::Status OpenStore() {
    StoresOptions options{.rules = {.max_lost_groups = config_.max_lost_groups(), .frontend = id_}};
    options.rules.default_ttl = absl::Seconds(config_.default_ttl_seconds());
    options.metrics = &metrics_;
    options.on_lost = [this] { TellHealth(); };
    if (home_->is_remote()) options.shared_place = config_.artifacts();
    KINORA_RETURN_IF_ERROR(options.watch.Add(state_.path()));
    KINORA_RETURN_IF_ERROR(home_->WatchIn(options.watch));
    options.listener = [this](const v1::VideoEvent& event) {
      job_metrics_.Observe(event);
      if (event.has_terminal()) queue_metrics_.Observe(event.terminal());
      shared_events_ != nullptr ? shared_events_->Hear(event) : hub_->Publish(event);
      if (sharing_ != nullptr) sharing_->Tell(event);
      if (event.has_terminal()) housekeeper_->JobEnded(event.terminal());
    };
    KINORA_ASSIGN_OR_RETURN(stores_, OpenStores(config_, state_, clock_, std::move(options)));
    if (!IsShared()) EndOtherLeases(stores_->frontends(), id_);  // the lock of the state proves that they are gone
    MakeEvents();
    sharing_ = std::make_unique<FrontendSharing>(
        config_, id_, FrontendSharing::Parts{*stores_, *hub_, shared_events_, clocks_.steady});
    queue_->SetStore(stores_->jobs());
    return LookForArtifactsWithoutJob(stores_->jobs(), stores_->is_new(), *home_, comparison_, metrics_);
  }

  void MakeEvents() {
    if (!stores_->is_database()) {
      events_ = std::make_unique<OwnEvents>(*hub_, stores_->jobs());
      return;
    }
    auto shared =
        std::make_unique<SharedEvents>(*hub_, stores_->jobs(), kLook, std::make_unique<EventLoop>(clocks_.steady));
    shared_events_ = shared.get();
    events_ = std::move(shared);
  }

  absl::Status OpenInputs() {
    InputRules rules{.max_bytes = config_.max_input_bytes(), .quota = config_.input_quota_bytes()};
    rules.ttl = absl::Seconds(config_.input_ttl_seconds());
    rules.sweep_interval = absl::Seconds(config_.sweep_interval_seconds());
    rules.check_disk = [this](int64_t bytes) { return CheckDisk(bytes); };
    KINORA_ASSIGN_OR_RETURN(inputs_, InputStore::Open(stores_->inputs(), stores_->jobs(), home_->artifacts(),
                                                      home_->parts(), clock_, metrics_, std::move(rules)));
    return absl::OkStatus();
  }

  void MakeDispatcher(std::vector<v1::ModelInfo> known) {
    DispatcherOptions options;
    options.known_models = std::move(known);
    options.owner = id_;
    options.lease = absl::Seconds(config_.lease_seconds());
    if (stores_->is_database()) options.look_interval = kLook;
    options.ends_runs_with_leases = IsShared();
    sharing_->AddTo(options);
    options.artifact_directory = home_->ForWorkers();
    intake_ = std::make_unique<ArtifactIntake>(home_->artifacts(), clocks_.steady);
    options.intake = intake_.get();
    supply_ = std::make_unique<InputSupply>(home_->artifacts(), clocks_.steady);
    options.inputs = supply_.get();
    points_ = std::make_unique<ResumeFiles>(home_->artifacts(), clocks_.steady);
    options.points = points_.get();
    options.preempt_after = absl::Seconds(config_.preempt_after_seconds());
    options.limits.heartbeat_timeout = absl::Seconds(config_.worker_heartbeat_timeout_seconds());
    options.limits.stall_floor = absl::Seconds(config_.worker_step_floor_seconds());
    options.limits.join_timeout = absl::Seconds(config_.group_join_timeout_seconds());
    options.limits.heartbeat_interval =
        std::min(options.limits.heartbeat_interval, options.limits.heartbeat_timeout / kHeartbeatsInTime);
    options.identity = ThisBuild();
    dispatcher_ = std::make_unique<Dispatcher>(stores_->jobs(), stores_->catalogue(), *queue_, *hub_, clocks_,
                                               &metrics_, options);
    sharing_->Use(*dispatcher_);
    housekeeper_ = std::make_unique<Housekeeper>(
        stores_->jobs(), home_->artifacts(), *hub_, clock_, [this](const JobId& id) { CancelLeft(id); },
        HousekeeperOptions{.sweep_interval = absl::Seconds(config_.sweep_interval_seconds()),
                           .disconnect_grace = absl::Seconds(config_.disconnect_grace_seconds()),
                           .most_tidied = home_->is_remote() ? kMostTidied : std::numeric_limits<int64_t>::max()});
  }

  void CancelRun(const JobId& id) {  // of a job that is stored as cancelled
    dispatcher_->CancelRun(id);
    sharing_->TellCancelled();
  }
  void CancelLeft(const JobId& id) {
    Log(Severity::kInfo, "job_left", {{"job", id}});
    CancelJob(
        stores_->jobs(), *queue_, [this](const JobId& job) { CancelRun(job); }, id,
        [](const absl::StatusOr<v1::Video>&) {});
  }

  absl::Status Recover() {
    absl::StatusOr<std::vector<UnfinishedJob>> jobs;
    absl::Notification read;
    stores_->jobs().Unfinished([&](absl::StatusOr<std::vector<UnfinishedJob>> found) {
      jobs = std::move(found);
      read.Notify();
    });
    read.WaitForNotification();
    KINORA_RETURN_IF_ERROR(jobs.status());
    const auto recovered = [this, left = std::make_shared<std::atomic<size_t>>(jobs->size() + 1)] {
      if (--*left == 0) housekeeper_->Tidy();
    };
    for (const UnfinishedJob& job : *jobs) {
      dispatcher_->Recover(job, [log = LogRecovered(job.video.id()), recovered](const absl::Status& status) mutable {
        log(status);
        recovered();
      });
    }
    recovered();
    HoldLease();
    return absl::OkStatus();
  }

  void HoldLease() {
    FrontendLeaseOptions options{.frontend = sharing_->entry()};
    options.lease = absl::Seconds(config_.lease_seconds());
    options.on_lost_run = [this](const UnfinishedJob& job) { dispatcher_->Recover(job, LogRecovered(job.video.id())); };
    options.on_lost_client = [this](const JobId& id) { ClientLeft(id); };
    if (IsShared()) options.grace = options.lease;
    lease_ = std::make_unique<FrontendLease>(stores_->frontends(), stores_->jobs(), clocks_.steady, std::move(options));
  }

  void MakeContext(TokenSet tokens) {
    context_.reset(new ServiceContext{
        .store = stores_->jobs(),
        .catalogue = stores_->catalogue(),
        .queue = *queue_,
        .hub = *hub_,
        .events = *events_,
        .artifacts = home_->artifacts(),
        .housekeeper = *housekeeper_,
        .client_left = [this](const JobId& id) { ClientLeft(id); },
        .metrics = job_metrics_,
        .gauges = metrics_,
        .disk = *disk_,
        .downloads = downloads_,
        .download_idle = absl::Seconds(config_.download_idle_seconds()),
        .inputs = *inputs_,
        .uploads = uploads_,
        .upload_reads = upload_reads_,
        .limits = {.default_model = config_.default_model(), .max_ttl = absl::Seconds(config_.max_ttl_seconds())},
        .tokens = std::move(tokens),
        .check_disk = [this] { return CheckDisk(); },
        .cancel_run = [this](const JobId& id) { CancelRun(id); },
        .estimate = [this](const std::string& model, const v1::Generation& generation,
                           Done<v1::Estimate> done) { dispatcher_->Estimate(model, generation, std::move(done)); },
        .estimate_shape =
            [this](const std::string& model, const v1::Generation& generation, Done<v1::Estimate> done) {
              dispatcher_->EstimateShape(model, generation, std::move(done));
            },
        .absence = [this] { return groups_.WhatIsAbsent(); },
        .waits_for = [this](const std::string& model) { return IsShared() ? "" : groups_.WaitsFor(model); },
        .comes_back = [this](const std::string& model,
                             const std::string& lora) { return groups_.ComesBack(model, lora); }});
  }

  absl::Status StartServers() {
    KINORA_ASSIGN_OR_RETURN(TokenSet tokens, LoadTokens(config_.token_file()));
    KINORA_ASSIGN_OR_RETURN(TokenSet admin_tokens, LoadTokens(config_.admin_token_file()));
    MakeContext(std::move(tokens));
    KINORA_ASSIGN_OR_RETURN(server_,
                            FrontendServer::Start(config_, *context_, sharing_->Control(), std::move(admin_tokens)));
    KINORA_RETURN_IF_ERROR(sharing_->Serve(job_metrics_, metrics_));
    dispatcher_->SetHealthListener([this](const GroupsHealth& health) {
      if (health.ready) wrong_start_.NoteReady();
      groups_.Set(health);
      {
        absl::MutexLock lock(&health_mu_);
        health_server_ = server_.get();
      }
      TellHealth();
    });
    return absl::OkStatus();
  }

  // Reports to clients whether a group takes jobs and the state files are in place. Any thread.
  void TellHealth() {
    const bool kept = stores_->CheckState().ok();
    absl::MutexLock lock(&health_mu_);
    const GroupsHealth health = groups_.Get();
    if (health_server_ != nullptr) health_server_->SetReady((health.ready || IsShared()) && kept, health.groups);
  }

  void ClientLeft(const JobId& id) {
    sharing_->clients() != nullptr ? sharing_->clients()->Left(id) : housekeeper_->ClientLeft(id);
  }
  bool IsShared() const { return stores_->is_shared(); }  // groups of other frontends run this one's jobs, too
  absl::Status CheckReady() {
    if (draining_) return absl::UnavailableError("draining");
    KINORA_RETURN_IF_ERROR(stores_->CheckState());
    return IsShared() ? absl::OkStatus() : groups_.Ready();
  }

  // Checks that `more` bytes fit in addition to min_free_bytes.
  absl::Status CheckDisk(int64_t more = 0) {
    KINORA_RETURN_IF_ERROR(stores_->CheckState());
    return CheckRoomForArtifacts(home_->artifacts(), config_.min_free_bytes() + more);
  }

  absl::Status StartGroups() {
    const std::string address = absl::StrCat("unix:", state_.File("worker.sock"));
    const std::vector<v1::GroupConfig> groups = GroupsOf(config_);
    for (const v1::GroupConfig& group : groups) dispatcher_->Supervise(group.id(), "", "");  // before any rank can join
    for (const auto& [id, processes] : OutsideGroupsOf(config_)) dispatcher_->Await(id, processes);
    KINORA_ASSIGN_OR_RETURN(local_join_,
                            JoinServer::Start(*dispatcher_, metrics_,
                                              {.field = "worker.sock", .address = address, .steady = &clocks_.steady}));
    KINORA_RETURN_IF_ERROR(OpenJoinPort());
    if (groups.empty() && config_.join_address().empty() && !IsShared()) {
      Log(Severity::kWarning, "no_groups",
          {{"awaits", "no job can run until --worker-model, groups or join_address is set"}});
    }
    // Groups with other names, started outside, may join at the socket as well.
    for (const v1::GroupConfig& group : groups) supervisors_.push_back(Supervise(group, address));
    dispatcher_->SetLossListener([this](const std::string&, const std::string& incarnation, const std::string&) {
      for (const auto& supervisor : supervisors_) supervisor->Kill(incarnation);
    });
    dispatcher_->SetRestartListener([this](const std::string& group) {
      for (const auto& supervisor : supervisors_) {
        if (supervisor->group() != group) continue;
        supervisor->Restart();
        return true;
      }
      return false;
    });
    return absl::OkStatus();
  }

  absl::Status OpenJoinPort() {
    if (config_.join_address().empty()) return absl::OkStatus();
    JoinServerOptions options{
        .field = "join_address", .address = config_.join_address(), .entrance = Entrance::kJoinPort};
    options.local_only = !JoinMayBeExposed(config_);
    options.homes = sharing_->homes();
    options.steady = &clocks_.steady;
    options.wants_certificate = !config_.join_tls().client_ca_file().empty();
    KINORA_ASSIGN_OR_RETURN(options.credentials, MakeServerCredentials(config_.join_tls(), "join_tls",
                                                                       NoClientCertificate::kIsSeenByTheService));
    KINORA_ASSIGN_OR_RETURN(TokenSet tokens, LoadTokens(config_.join_token_file()));
    options.check_token = [tokens = std::move(tokens)](std::string_view authorization) {
      return tokens.Check(authorization);
    };
    KINORA_ASSIGN_OR_RETURN(join_port_, JoinServer::Start(*dispatcher_, metrics_, std::move(options)));
    return absl::OkStatus();
  }

  std::unique_ptr<GroupSupervisor> Supervise(const v1::GroupConfig& group, const std::string& address) {
    v1::WorkerConfig worker = group.worker();
    worker.set_frontend(address);
    worker.set_log_format(config_.log_format());
    GroupSupervisorOptions options;
    options.binary = config_.worker_binary();
    options.arguments = ToFlags(worker);
    options.group = group.id();
    options.processes = group.processes();
    options.on_begin = [this, id = group.id()](const std::string& incarnation, const std::string& secret) {
      dispatcher_->Supervise(id, incarnation, secret);
    };
    options.on_process_end = home_->ProcessEndListener();
    std::vector<std::string> files(worker.model().begin(), worker.model().end());
    files.push_back(config_.worker_binary());
    options.files = [files = std::move(files)] { return StateOfFiles(files); };
    options.on_give_up = [this, id = group.id()] { dispatcher_->GiveUp(id); };
    return std::make_unique<GroupSupervisor>(
        std::move(options), clocks_.steady,
        [this](const std::string& id, const std::string& incarnation, const std::string& why) {
          dispatcher_->ProcessEnded(id, incarnation, why);
          wrong_start_.NoteEnd(id, why);
        });
  }

  absl::Status StartPages() {
    if (config_.http_address().empty()) return absl::OkStatus();
    RegisterBuildInfo(page_.registry());
    HttpPagesOptions options;
    options.title = "kinora-frontend";
    options.address = config_.http_address();
    options.local_only = !config_.insecure();
    options.metrics = [this] {
      metrics_.job_store_unwritable_seconds.Set(absl::ToDoubleSeconds(stores_->Unwritable()));
      return page_.Text();
    };
    options.live = [this] { return server_->Live(); };  // does not depend on the GPU
    options.ready = [this] { return CheckReady(); };
    KINORA_ASSIGN_OR_RETURN(pages_, HttpPages::Start(std::move(options)));
    return absl::OkStatus();
  }

  // Stops the parts that were started, dependents first.
  void Stop() {
    if (std::exchange(stopped_, true)) return;
    std::vector<std::thread> stops;  // in parallel: each may take its grace
    stops.reserve(supervisors_.size());
    for (const auto& supervisor : supervisors_) stops.emplace_back([&supervisor] { supervisor->Stop(); });
    if (gateway_ != nullptr) gateway_->Stop();
    for (std::thread& stop : stops) stop.join();
    local_join_.reset();
    if (join_port_ != nullptr) join_port_->Shutdown(kLeaveStreams);
    join_port_.reset();
    if (server_ != nullptr) server_->Shutdown(kCutStreams);  // ends every call: context_ is unused afterwards
    pages_.reset();
    if (home_ != nullptr) home_->Stop();  // ends what would hold up the threads below
    comparison_.Stop();
    if (shared_events_ != nullptr) shared_events_->Stop();
    if (sharing_ != nullptr) sharing_->Stop();
    if (lease_ != nullptr) lease_->Stop();
    if (stores_ != nullptr) stores_->jobs().Flush();  // its last scan uses the dispatcher and the housekeeper
    if (drained_ && sharing_ != nullptr) sharing_->Leave();
    if (housekeeper_ != nullptr) housekeeper_->Stop();
    if (disk_ != nullptr) disk_->Stop();
    if (inputs_ != nullptr) inputs_->Stop();
    if (stores_ != nullptr) stores_->jobs().Flush();
    dispatcher_.reset();
    intake_.reset();
    supply_.reset();
    points_.reset();
    if (stores_ != nullptr) stores_->jobs().Flush();
    if (stores_ != nullptr) stores_->StopWatching();
    stores_.reset();
  }

  const v1::FrontendConfig config_;
  const Clocks clocks_;
  Clock& clock_;  // the date
  const StateDirectory state_;
  const FrontendId id_ = RandomId();
  MetricsPage page_;
  FrontendMetrics metrics_{page_.registry()};
  JobMetrics job_metrics_{metrics_};
  QueueMetrics queue_metrics_{metrics_};
  std::unique_ptr<ArtifactHome> home_;
  std::unique_ptr<EventHub> hub_;
  std::unique_ptr<JobQueue> queue_;
  EventLoop comparison_{clocks_.steady};  // of a bucket with the store
  std::unique_ptr<EventLanes> disk_;
  std::unique_ptr<InputStore> inputs_;  // declared before stores_, whose callbacks may use it
  std::unique_ptr<Stores> stores_;
  std::unique_ptr<EventSource> events_;
  SharedEvents* shared_events_ = nullptr;  // the same, or null
  std::unique_ptr<FrontendSharing> sharing_;
  std::unique_ptr<ArtifactIntake> intake_;
  std::unique_ptr<InputSupply> supply_;
  std::unique_ptr<ResumeFiles> points_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<Housekeeper> housekeeper_;
  std::unique_ptr<FrontendLease> lease_;
  CallSlots downloads_{"downloads", config_.max_downloads(), config_.max_downloads_per_client(),
                       [this](int open) { metrics_.downloads.Set(open); }};
  CallSlots uploads_{"uploads", config_.max_uploads(), config_.max_uploads_per_client(),
                     [this](int open) { metrics_.uploads.Set(open); }};
  // One read per possible upload, so that none is aborted for another.
  MessageReads upload_reads_{{.calls = config_.max_uploads(), .time = absl::Seconds(config_.upload_idle_seconds())},
                             clocks_.steady};
  std::unique_ptr<ServiceContext> context_;
  std::unique_ptr<FrontendServer> server_;
  std::unique_ptr<JoinServer> local_join_, join_port_;
  WrongStart wrong_start_{config_};
  std::vector<std::unique_ptr<GroupSupervisor>> supervisors_;
  std::unique_ptr<GatewaySupervisor> gateway_;  // may be null
  std::unique_ptr<HttpPages> pages_;
  GroupsView groups_{clocks_.steady};
  absl::Mutex health_mu_;
  FrontendServer* health_server_ ABSL_GUARDED_BY(health_mu_) = nullptr;  // null until it serves
  std::atomic<bool> draining_ = false;
  bool drained_ = false;
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Frontend>> Frontend::Start(const v1::FrontendConfig& asked, Clocks clocks) {
  const v1::FrontendConfig config = WithDerivedDefaults(asked);
  KINORA_RETURN_IF_ERROR(CheckFrontendConfig(config));
  KINORA_ASSIGN_OR_RETURN(StateDirectory state, StateDirectory::Lock(config.state_directory()));
  auto frontend = std::make_unique<EmbeddedFrontend>(config, clocks, std::move(state));
  KINORA_RETURN_IF_ERROR(frontend->Start());
  return frontend;
}

}  // namespace kinora

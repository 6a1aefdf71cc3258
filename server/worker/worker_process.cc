#include "server/worker/worker_process.h"

#include <google/protobuf/text_format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/memory.h"
#include "engine/base/status_macros.h"
#include "engine/ops/backend.h"
#include "server/common/build_version.h"
#include "server/common/config.h"
#include "server/common/grpc_log.h"
#include "server/common/http_pages.h"
#include "server/common/program_help.h"
#include "server/worker/artifact_place.h"
#include "server/worker/inherited_secret.h"
#include "server/worker/join_client.h"
#include "server/worker/join_way.h"
#include "server/worker/lifeline.h"
#include "server/worker/rank_loop.h"

namespace kinora {
namespace {

constexpr absl::Duration kJoinPatience = absl::Seconds(30);
constexpr absl::Duration kSignalGrace = absl::Seconds(20);
constexpr absl::Duration kLeaveGrace = absl::Seconds(10);
constexpr int kStartAgain = 75;  // EX_TEMPFAIL of sysexits.h

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

void StartLog(const v1::WorkerConfig& config) {
  SetLogOptions({.format = config.log_format() == "json" ? LogFormat::kJson : LogFormat::kKeyValue,
                 .process = {{"process", "worker"}, {"group", config.group()}, {"rank", config.rank()}}});
  TakeGrpcLog();
}

// For people; what the configuration asks for if there is no such device, which loading will say.
std::string DescribeDevice(const v1::WorkerConfig& config) {
  const int threads = config.threads() > 0 ? config.threads() : static_cast<int>(std::thread::hardware_concurrency());
  return DeviceName(config.device(), {.threads = threads}).value_or(config.device());
}

v1::Hello MakeHello(const v1::WorkerConfig& config, const std::string& secret) {
  v1::Hello hello;
  hello.set_build(kBuildVersion);
  hello.set_commit(ThisBuild().commit);
  hello.set_protocol(ThisBuild().protocol);
  hello.set_secret(secret);
  hello.set_group(config.group());
  hello.set_incarnation(config.incarnation());
  hello.set_rank(config.rank());
  hello.set_world_size(config.world_size());
  hello.set_pid(getpid());
  hello.set_device(DescribeDevice(config));
  hello.set_address(HostName());
  return hello;
}

// SIGTERM and SIGINT end the present run after a grace and then the worker, a second one at once; a worker that has not
// joined yet, at once.
class SignalThread {
 public:
  static void Block() {
    const sigset_t signals = Signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  }
  SignalThread()
      : thread_([this] {
          const sigset_t signals = Signals();
          int signal = 0;
          for (int count = 0; sigwait(&signals, &signal) == 0 && !ended_; ++count) Stop(count);
        }) {}
  ~SignalThread() {
    ended_ = true;
    // The thread waits for this very signal; every thread has it blocked.
    pthread_kill(thread_.native_handle(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread)
    thread_.join();
  }
  class Watch {  // a loop, while it lives
   public:
    Watch(SignalThread& signals, RankLoop& loop) : signals_(signals) { signals_.SetLoop(&loop); }
    ~Watch() { signals_.SetLoop(nullptr); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    SignalThread& signals_;
  };

 private:
  void SetLoop(RankLoop* loop) {
    absl::MutexLock lock(&mu_);
    loop_ = loop;
  }
  void Stop(int signals_before) {
    absl::MutexLock lock(&mu_);
    if (loop_ == nullptr) _exit(0);  // nothing is begun, or it is over
    loop_->Stop(signals_before == 0 ? kSignalGrace : absl::ZeroDuration());
  }
  static sigset_t Signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return signals;
  }
  absl::Mutex mu_;
  RankLoop* loop_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

class Pages {  // /readyz asks the loop once there is one
 public:
  absl::Status Start(const v1::WorkerConfig& config, MetricsPage& metrics) {
    if (config.http_address().empty()) return absl::OkStatus();
    RegisterBuildInfo(metrics.registry());
    HttpPagesOptions options;
    options.title = absl::StrCat("kinora-worker, group ", config.group(), ", rank ", config.rank());
    options.address = HttpAddressOf(config);
    options.metrics = [&metrics] { return metrics.Text(); };
    options.live = [] { return absl::OkStatus(); };
    options.ready = [this] {
      const RankLoop* loop = loop_;
      return loop == nullptr ? absl::UnavailableError("joining") : loop->Readiness();
    };
    KINORA_ASSIGN_OR_RETURN(pages_, HttpPages::Start(std::move(options)));
    Log(Severity::kInfo, "pages", {{"http_port", pages_->port()}});
    return absl::OkStatus();
  }
  void SetLoop(const RankLoop* loop) { loop_ = loop; }
  void Stop() { pages_.reset(); }

 private:
  std::atomic<const RankLoop*> loop_ = nullptr;
  std::unique_ptr<HttpPages> pages_;
};

bool IsSupervised(const v1::WorkerConfig& config) { return config.lifeline_fd() > 0; }

// A supervisor kills the ranks of a group that is lost. One that somebody else started ends itself, should a run not
// let go of it.
void LeaveAtLast() {
  std::thread([] {
    absl::Mutex mu;
    bool never = false;
    absl::MutexLock lock(&mu);
    Clock::Steady().AwaitUntil(mu, absl::Condition(&never), Clock::Steady().Now() + kLeaveGrace);
    Log(Severity::kWarning, "worker_leaves", {{"why", "the stream has ended, and the run has not"}});
    _exit(kStartAgain);
  }).detach();
}

absl::StatusOr<std::unique_ptr<JoinClient>> Join(const v1::WorkerConfig& config, const std::string& secret) {
  const v1::Hello hello = MakeHello(config, secret);
  KINORA_ASSIGN_OR_RETURN(const JoinTarget target, JoinTargetOf(config));
  KINORA_ASSIGN_OR_RETURN(auto client, JoinClient::Join(target, hello, kJoinPatience));
  Log(Severity::kInfo, "joined",
      {{"version", kBuildVersion},
       {"commit", kBuildCommit},
       {"frontend", config.frontend()},
       {"incarnation", client->welcome().incarnation()}});
  return client;
}

// OK: it was told to leave by a signal, or as a supervised worker by its frontend.
absl::Status Serve(v1::WorkerConfig config, const std::string& secret, const LoadModel& load) {
  SignalThread signals;
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  Pages pages;
  KINORA_RETURN_IF_ERROR(pages.Start(config, page));
  KINORA_ASSIGN_OR_RETURN(const auto client, Join(config, secret));
  if (config.data_interface().empty()) {
    KINORA_ASSIGN_OR_RETURN(*config.mutable_data_interface(), AddressToward(config.frontend()));
  }
  KINORA_ASSIGN_OR_RETURN(const auto artifacts, ArtifactPlace::Open(config, client->welcome()));
  const auto send = [&client = *client](const v1::WorkerMessage& message) { client.Send(message); };
  JoinRendezvous rendezvous(send);
  FileLines files(send);
  AbortSignal lost;
  const RankContext context{.rank = config.rank(),
                            .world_size = config.world_size(),
                            .rendezvous = rendezvous,
                            .lost = lost,
                            .group_key = client->welcome().group_key()};
  const std::unique_ptr<Rank> rank = MakeRank(context, artifacts->store(), artifacts->is_shared() ? nullptr : &files);
  std::unique_ptr<Model> model;  // outlives the loop, whose threads ask it
  absl::Status status;
  {
    RankLoop loop({*client, rendezvous, files, lost}, metrics,
                  IsSupervised(config) ? std::function<void()>() : LeaveAtLast);
    const SignalThread::Watch watch(signals, loop);
    pages.SetLoop(&loop);
    absl::StatusOr<std::unique_ptr<Model>> loaded = load(config, context, metrics, [&loop] { loop.NoteProgress(); });
    if (loaded.ok()) {
      model = *std::move(loaded);
      status = loop.Run(*rank, *model);
    } else {
      status = loop.SayRankFailed(loaded.status());
    }
    if (status.ok() && loop.dismissed() && !IsSupervised(config)) status = absl::UnavailableError("the frontend stops");
    pages.Stop();
  }
  return status;
}

// A worker that nobody supervises leaves with kStartAgain where starting it again may help.
int ExitStatusOf(const absl::Status& status, bool supervised) {
  if (status.ok()) return 0;
  if (absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status)) return 2;
  const bool passes = absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
  return passes && !supervised ? kStartAgain : 1;
}

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "kinora-worker: %s\n", std::string(status.message()).c_str());
  return 2;
}

int Describe(const v1::WorkerConfig& config, const TellModel& describe) {
  const absl::StatusOr<v1::ModelInfo> model = describe(config);
  if (!model.ok()) return Complain(model.status());
  std::string text;
  google::protobuf::TextFormat::PrintToString(*model, &text);
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : Complain(absl::UnknownError("standard output cannot be written"));
}

}  // namespace

int RunWorker(const std::vector<std::string>& arguments, const ModelProgram& model) {
  ExitWhenOutOfMemory("kinora-worker");
  umask(0077);  // artifacts and sockets are its user's alone
  v1::WorkerConfig config = DefaultWorkerConfig();
  const absl::StatusOr<ConfigCommand> command = ParseConfig(arguments, config);
  if (command.ok() && (command->help || command->version)) {
    std::fputs(
        command->version ? VersionText("kinora-worker").c_str() : HelpText(kWorkerHelp, ConfigFlags(config)).c_str(),
        stdout);
    return 0;
  }
  if (command.ok() && command->describe) return Describe(config, model.describe);
  absl::Status status = command.ok() ? CheckWorkerConfig(config) : command.status();
  const bool only_check = command.ok() && command->check;
  if (status.ok() && only_check) status = model.check(config);
  if (status.ok() && !only_check) {
    StartLog(config);
    if (config.lifeline_fd() > 0) status = HoldOnToLifeline(config.lifeline_fd());
  }
  std::string secret;
  if (status.ok() && !only_check && config.secret_fd() > 0) {
    absl::StatusOr<std::string> inherited = ReadInheritedSecret(config.secret_fd());
    status = inherited.status();
    if (status.ok()) secret = *std::move(inherited);
  }
  if (!status.ok()) return Complain(status);
  if (only_check) {
    std::puts("the configuration is valid");
    return 0;
  }
  SignalThread::Block();
  status = Serve(config, secret, model.load);
  if (!status.ok()) Log(Severity::kError, "worker_leaves", {{"why", std::string(status.message())}});
  return ExitStatusOf(status, IsSupervised(config));
}

}  // namespace kinora

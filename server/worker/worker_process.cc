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
#include "server/common/lifeline.h"
#include "server/common/status_details.h"
#include "server/config/config.h"
#include "server/config/program_help.h"
#include "server/net/grpc_log.h"
#include "server/net/http_pages.h"
#include "server/worker/artifact_place.h"
#include "server/worker/inherited_secret.h"
#include "server/worker/join_home.h"
#include "server/worker/join_way.h"
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
  StartLogThread();
  TakeGrpcLog();
}

// For people. If there is no such device, returns the configured name; loading the model then reports the error.
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

// On SIGTERM, SIGINT or SIGHUP, ends the worker after the present run, which has kSignalGrace to finish; on a second
// signal, cancels the run. A worker that has not joined yet exits at once.
class SignalThread {
 public:
  // To be called before any thread starts, because a signal to a thread that does not block it would end the process.
  static void Block() { SetMask(SIG_BLOCK); }
  static void Unblock() { SetMask(SIG_UNBLOCK); }
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
  class Watch {  // has signals stop the loop while this object lives
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
    if (loop_ == nullptr) {  // not yet joined, or the loop has ended
      FlushLog();
      _exit(0);
    }
    loop_->Stop(signals_before == 0 ? kSignalGrace : absl::ZeroDuration());
  }
  static void SetMask(int how) {
    const sigset_t signals = Signals();
    pthread_sigmask(how, &signals, nullptr);
  }
  static sigset_t Signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    struct sigaction hangup {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN)
      sigaddset(&signals, SIGHUP);  // nohup ignores it, but sigwait would still receive it
    return signals;
  }
  absl::Mutex mu_;
  RankLoop* loop_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

class Pages {  // /readyz reports the loop's Readiness once there is a loop
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

// Ends a worker without a supervisor if its run does not stop within kLeaveGrace. A supervisor kills the ranks of a
// lost group itself.
void LeaveAtLast() {
  std::thread([] {
    absl::Mutex mu;
    bool never = false;
    absl::MutexLock lock(&mu);
    Clock::Steady().AwaitUntil(mu, absl::Condition(&never), Clock::Steady().Now() + kLeaveGrace);
    Log(Severity::kWarning, "worker_leaves", {{"why", "the stream ended during the run"}});
    FlushLog();
    _exit(kStartAgain);
  }).detach();
}

absl::StatusOr<JoinedFrontend> Join(const v1::WorkerConfig& config, const std::string& secret) {
  const v1::Hello hello = MakeHello(config, secret);
  KINORA_ASSIGN_OR_RETURN(const JoinTarget target, JoinTargetOf(config));
  KINORA_ASSIGN_OR_RETURN(JoinedFrontend joined, JoinHome(target, hello, kJoinPatience));
  Log(Severity::kInfo, "joined",
      {{"version", kBuildVersion},
       {"commit", kBuildCommit},
       {"frontend", joined.address},
       {"incarnation", joined.client->welcome().incarnation()}});
  return joined;
}

// Returns the machine's check for Fitness. Only rank 0 has one, because only rank 0 writes files.
std::function<absl::Status()> LookOf(const v1::WorkerConfig& config, const ArtifactPlace& place) {
  if (config.rank() != 0) return {};
  return [&place] { return place.Check(); };
}

absl::Status ChooseDataInterface(const std::string& frontend, v1::WorkerConfig& config) {
  if (!config.data_interface().empty()) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(*config.mutable_data_interface(), AddressToward(frontend));
  return absl::OkStatus();
}

enum class Ending {
  kForGood,   // a signal stopped the worker, or its frontend stopped a supervised worker
  kDismissed  // the frontend of a worker without a supervisor is stopping; another one may follow
};

absl::StatusOr<Ending> Serve(v1::WorkerConfig config, const std::string& secret, const LoadModel& load) {
  SignalThread signals;
  MetricsPage page;
  WorkerMetrics metrics(page.registry());
  Pages pages;
  KINORA_RETURN_IF_ERROR(pages.Start(config, page));
  KINORA_ASSIGN_OR_RETURN(const JoinedFrontend joined, Join(config, secret));
  const std::unique_ptr<JoinClient>& client = joined.client;
  KINORA_RETURN_IF_ERROR(ChooseDataInterface(joined.address, config));
  KINORA_ASSIGN_OR_RETURN(const auto artifacts, ArtifactPlace::Open(config, client->welcome()));
  const auto send = [&client = *client](const v1::WorkerMessage& message) { client.Send(message); };
  JoinRendezvous rendezvous(send);
  FileLines files(send);
  AbortSignal lost;
  Fitness fitness(LookOf(config, *artifacts));
  const RankContext context{.rank = config.rank(),
                            .world_size = config.world_size(),
                            .rendezvous = rendezvous,
                            .lost = lost,
                            .group_key = client->welcome().group_key()};
  const std::unique_ptr<Rank> rank = MakeRank(context, artifacts->store(), artifacts->is_shared() ? nullptr : &files,
                                              absl::Seconds(config.checkpoint_seconds()));
  std::unique_ptr<Model> model;  // outlives the loop, whose threads use it
  absl::Status status;
  bool dismissed = false;
  {
    RankLoop loop({*client, rendezvous, files, lost, fitness}, metrics,
                  IsSupervised(config) ? std::function<void()>() : LeaveAtLast);
    const SignalThread::Watch watch(signals, loop);
    pages.SetLoop(&loop);
    absl::StatusOr<std::unique_ptr<Model>> loaded = load(config, context, metrics, [&loop] { loop.NoteProgress(); });
    status = loaded.status();
    if (loaded.ok()) model = *std::move(loaded);
    status = model != nullptr ? loop.Run(*rank, *model) : loop.SayRankFailed(status);
    dismissed = loop.dismissed() && !IsSupervised(config);
    pages.Stop();
  }
  KINORA_RETURN_IF_ERROR(status);
  return dismissed ? Ending::kDismissed : Ending::kForGood;
}

// Whether starting the worker again may help.
bool Passes(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

// Logs an error only if an operator has to mend something: the ranks of a lost group start again.
void LogEnding(const absl::StatusOr<Ending>& ending) {
  if (ending.ok() && *ending == Ending::kForGood) return;
  const Severity severity = ending.ok()               ? Severity::kInfo
                            : Passes(ending.status()) ? Severity::kWarning
                                                      : Severity::kError;
  const std::string why = ending.ok() ? "the frontend is stopping" : std::string(ending.status().message());
  Log(severity, "worker_leaves", {{"why", why}});
}

// Returns kStartAgain for a worker without a supervisor if starting it again may help.
int ExitStatusOf(const absl::StatusOr<Ending>& ending, bool supervised) {
  if (ending.ok()) return *ending == Ending::kDismissed ? kStartAgain : 0;
  const absl::Status& status = ending.status();
  if (absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status)) return 2;
  return Passes(status) && !supervised ? kStartAgain : 1;
}

int Complain(const absl::Status& status) {
  FlushLog();
  std::fputs(ErrorLines("kinora-worker", status).c_str(), stderr);
  return 2;
}

int Describe(const v1::WorkerConfig& config, const TellModel& describe) {
  const absl::StatusOr<v1::ModelInfo> model = describe(config);
  if (!model.ok()) return Complain(model.status());
  std::string text;
  google::protobuf::TextFormat::PrintToString(*model, &text);
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : Complain(absl::UnknownError("cannot write to standard output"));
}

}  // namespace

int RunWorker(const std::vector<std::string>& arguments, const ModelProgram& model) {
  SignalThread::Block();
  ExitWhenOutOfMemory("kinora-worker");
  umask(0077);  // only this user can access artifacts and sockets
  v1::WorkerConfig config = DefaultWorkerConfig();
  const absl::StatusOr<ConfigCommand> command = ParseConfig(arguments, config);
  if (command.ok() && (command->help || command->version)) {
    std::fputs(
        command->version ? VersionText("kinora-worker").c_str() : HelpText(kWorkerHelp, ConfigFlags(config)).c_str(),
        stdout);
    return 0;
  }
  const bool only_check = command.ok() && command->check;
  if (only_check || (command.ok() && command->describe)) SignalThread::Unblock();  // no run has to end gracefully
  if (command.ok() && command->describe) return Describe(config, model.describe);
  absl::Status status = command.ok() ? CheckWorkerConfig(config) : command.status();
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
  const absl::StatusOr<Ending> ending = Serve(config, secret, model.load);
  LogEnding(ending);
  return ExitStatusOf(ending, IsSupervised(config));
}

}  // namespace kinora

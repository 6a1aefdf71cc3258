// kinora-frontend: reads the configuration, starts a Frontend, drains it on SIGTERM, SIGINT or SIGHUP and exits 0. Exit
// status: 0 drained, the configuration is valid, or the store was copied; 1 the frontend could not start, or the store
// could not be copied; 2 the configuration is invalid, or no group can load its model.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/logging.h"
#include "engine/base/memory.h"
#include "server/common/build_version.h"
#include "server/common/status_details.h"
#include "server/config/config.h"
#include "server/config/program_help.h"
#include "server/frontend/descriptor_budget.h"
#include "server/frontend/frontend.h"
#include "server/frontend/stores.h"
#include "server/frontend/worker_check.h"
#include "server/net/grpc_log.h"

namespace kinora {
namespace {

int Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int Complain(const absl::Status& status, int exit_status) {
  FlushLog();
  std::fputs(ErrorLines("kinora-frontend", status).c_str(), stderr);
  return exit_status;
}

// Raises the limit of open files as far as allowed and useful, and returns it.
rlim_t RaiseOpenFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  constexpr rlim_t kEnough = 1 << 16;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, kEnough));
  (void)setrlimit(RLIMIT_NOFILE, &files);
  (void)getrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_cur;
}

// Blocks the signals that end the process, for sigwait. A closing terminal sends SIGHUP; under nohup it stays ignored.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);  // sigwait would take it although it is ignored
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void StartLog(const v1::FrontendConfig& config) {
  SetLogOptions({.format = config.log_format() == "json" ? LogFormat::kJson : LogFormat::kKeyValue,
                 .process = {{"process", "frontend"}}});
  StartLogThread();
  TakeGrpcLog();
}

// Without enough address space for gRPC and the threads' stacks an assertion would end the process later.
absl::Status CheckAddressSpace(int64_t max_call_memory_bytes) {
  constexpr int64_t kThreads = 1 << 30;  // measured after the start on two cores: 1.06 GB mapped
  const MemoryLimit limit = UsableMemory();
  if (limit.by != "ulimit -v" || limit.bytes >= kThreads + max_call_memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("ulimit -v leaves ", limit.bytes, " bytes of address space; ",
                                                   kThreads + max_call_memory_bytes,
                                                   " are needed: 1 GiB for threads plus max_call_memory_bytes"));
}

// Ends Serve's wait for a signal.
class WrongStartSignal {
 public:
  void Raise(const absl::Status& why) {
    {
      absl::MutexLock lock(&mu_);
      why_ = why;
    }
    kill(getpid(), SIGTERM);  // blocked in all threads
  }
  absl::Status why() {
    absl::MutexLock lock(&mu_);
    return why_;
  }

 private:
  absl::Mutex mu_;
  absl::Status why_ ABSL_GUARDED_BY(mu_);
};

// Serves until a signal, or until no group can load its model. Returns the exit status.
int Serve(v1::FrontendConfig config) {
  const sigset_t signals = BlockSignals();  // before any thread exists, so that all inherit the mask
  signal(SIGPIPE, SIG_IGN);
  const auto descriptors = DivideDescriptors(static_cast<int64_t>(RaiseOpenFiles()), config);
  if (!descriptors.ok()) return Complain(descriptors.status(), 1);
  if (descriptors->connections < config.max_connections()) {
    Log(Severity::kWarning, "max_connections_lowered",
        {{"max_connections", config.max_connections()},
         {"connections", descriptors->connections},
         {"why", "ulimit -n"}});
    config.set_max_connections(descriptors->connections);
  }

  const absl::Status status = CheckAddressSpace(config.max_call_memory_bytes());
  if (!status.ok()) return Complain(status, 1);

  auto frontend = Frontend::Start(config);
  if (!frontend.ok())
    return Complain(frontend.status(), frontend.status().code() == absl::StatusCode::kInvalidArgument ? 2 : 1);
  Log(Severity::kInfo, "serving",
      {{"version", kBuildVersion},
       {"commit", kBuildCommit},
       {"address", config.address()},
       {"port", (*frontend)->port()},
       {"admin_address", config.admin_address()},
       {"join_port", (*frontend)->join_port()},
       {"http_port", (*frontend)->http_port()},
       {"page", (*frontend)->page()},
       {"open_files", descriptors->limit},
       {"descriptors", descriptors->ToString()}});
  WrongStartSignal wrong;
  (*frontend)->SetWrongStartListener([&wrong](const absl::Status& why) { wrong.Raise(why); });
  int taken = 0;
  sigwait(&signals, &taken);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // a second signal ends the process at once
  (*frontend)->Drain();
  return wrong.why().ok() ? 0 : Complain(wrong.why(), 2);
}

int CopyStoreAndTell(const std::string& from, const v1::FrontendConfig& config) {
  absl::StatusOr<StateDirectory> state = StateDirectory::Lock(config.state_directory());
  if (!state.ok()) return Complain(state.status(), 1);
  const absl::StatusOr<StoreSummary> copied = CopyIntoStore(from, config, *state);
  if (!copied.ok()) return Complain(copied.status(), absl::IsInvalidArgument(copied.status()) ? 2 : 1);
  std::printf("copied %lld jobs with %lld events, %lld models and %lld inputs; sha256 of all rows on both sides: %s\n",
              static_cast<long long>(copied->jobs), static_cast<long long>(copied->events),
              static_cast<long long>(copied->models), static_cast<long long>(copied->inputs), copied->sha256.c_str());
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  ExitWhenOutOfMemory("kinora-frontend");
  umask(0077);  // files created here and by the workers are private to the user
  v1::FrontendConfig config = DefaultFrontendConfig();
  const absl::StatusOr<ConfigCommand> command = ParseConfig(arguments, config);
  if (!command.ok()) return Complain(command.status(), 2);
  if (command->version) return Print(VersionText("kinora-frontend"));
  if (command->help) return Print(HelpText(kFrontendHelp, ConfigFlags(config)));
  config = WithDerivedDefaults(config);
  absl::Status status = CheckFrontendConfig(config);
  if (status.ok()) status = CheckFrontendFiles(config);
  if (status.ok() && command->check) status = CheckWorkers(config);
  if (!status.ok()) return Complain(status, 2);
  if (command->check) {
    std::printf("the configuration is valid\n");
    return 0;
  }
  StartLog(config);
  if (!command->copy_store.empty()) return CopyStoreAndTell(command->copy_store, config);

  return Serve(std::move(config));
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) { return kinora::Main({argv + 1, argv + argc}); }

// kinora-frontend: reads the configuration, starts a Frontend, drains it on SIGTERM or SIGINT and exits 0.
// Exit status: 0 drained, or the configuration is right; 2 it is wrong; 1 it could not be started.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/memory.h"
#include "server/common/build_version.h"
#include "server/common/config.h"
#include "server/common/grpc_log.h"
#include "server/common/program_help.h"
#include "server/frontend/descriptor_budget.h"
#include "server/frontend/frontend.h"
#include "server/frontend/worker_check.h"

namespace kinora {
namespace {

int Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int Complain(const absl::Status& status, int exit_status) {
  std::fprintf(stderr, "kinora-frontend: %s\n", std::string(status.message()).c_str());
  return exit_status;
}

// As many descriptors as are allowed and useful.
rlim_t RaiseOpenFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  constexpr rlim_t kEnough = 1 << 16;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, kEnough));
  (void)setrlimit(RLIMIT_NOFILE, &files);
  (void)getrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_cur;
}

// Those that end the process, for sigwait.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void StartLog(const v1::FrontendConfig& config) {
  SetLogOptions({.format = config.log_format() == "json" ? LogFormat::kJson : LogFormat::kKeyValue,
                 .process = {{"process", "frontend"}}});
  TakeGrpcLog();
}

// gRPC and the threads' stacks end the process by an assertion where there is no room for them.
absl::Status CheckAddressSpace(int64_t max_call_memory_bytes) {
  constexpr int64_t kThreads = 1 << 30;  // mapped after the start on two cores, measured: 1.06 GB
  const MemoryLimit limit = UsableMemory();
  if (limit.by != "ulimit -v" || limit.bytes >= kThreads + max_call_memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("ulimit -v leaves ", limit.bytes, " bytes of address space; ",
                                                   kThreads + max_call_memory_bytes,
                                                   " are needed: 1 GiB for threads, and max_call_memory_bytes"));
}

// Until a signal. The exit status.
int Serve(v1::FrontendConfig config) {
  const sigset_t signals = BlockSignals();  // before any thread is made, and so in all of them
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
       {"open_files", descriptors->limit},
       {"descriptors", descriptors->ToString()}});
  int taken = 0;
  sigwait(&signals, &taken);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // a second one ends the process
  (*frontend)->Drain();
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  ExitWhenOutOfMemory("kinora-frontend");
  umask(0077);  // whatever is made here or by the workers that it starts is its user's alone
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
    std::printf("the configuration is right\n");
    return 0;
  }
  StartLog(config);

  return Serve(std::move(config));
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) { return kinora::Main({argv + 1, argv + argc}); }

// kinora-gateway: serves the HTTP API until SIGTERM, SIGINT or SIGHUP, or until the frontend that started it exits.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/base/logging.h"
#include "engine/base/memory.h"
#include "engine/base/version.h"
#include "server/common/lifeline.h"
#include "server/common/status_details.h"
#include "server/config/program_help.h"
#include "server/gateway/gateway.h"
#include "server/net/grpc_log.h"

namespace kinora {
namespace {

int Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int Complain(const absl::Status& status) {
  FlushLog();
  std::fputs(ErrorLines("kinora-gateway", status).c_str(), stderr);
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

// Each connection and each upload has a descriptor.
void RaiseOpenFiles(int max_connections) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(max_connections) * 2 + 256;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, wanted));
  (void)setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < wanted) {
    Log(Severity::kWarning, "few_open_files",
        {{"open_files", static_cast<int64_t>(files.rlim_cur)}, {"wanted", static_cast<int64_t>(wanted)}});
  }
}

// Blocks the signals that end the process, for sigwait. Under nohup SIGHUP stays ignored.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Returns the buffers of large bodies to the system when they are freed. Without a fixed threshold, glibc raises its
// own with each of them, and keeps the next ones.
void ReturnLargeBuffers() { mallopt(M_MMAP_THRESHOLD, 256 << 10); }

int Serve(const GatewayFlags& flags) {
  const sigset_t signals = BlockSignals();  // before any thread exists, so that all inherit the mask
  signal(SIGPIPE, SIG_IGN);
  SetLogOptions(
      {.format = flags.json_log ? LogFormat::kJson : LogFormat::kKeyValue, .process = {{"process", "gateway"}}});
  StartLogThread();
  TakeGrpcLog();
  if (flags.lifeline_fd > 0) {
    const absl::Status status = HoldOnToLifeline(flags.lifeline_fd);
    if (!status.ok()) return Complain(status);
  }
  RaiseOpenFiles(flags.max_connections);
  auto gateway = Gateway::Start(flags);
  if (!gateway.ok()) return Complain(gateway.status());
  Log(Severity::kInfo, "serving",
      {{"version", kBuildVersion},
       {"commit", kBuildCommit},
       {"address", flags.address},
       {"port", (*gateway)->port()},
       {"frontends", absl::StrJoin(flags.frontends, ",")}});
  int taken = 0;
  sigwait(&signals, &taken);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // a second signal ends the process at once
  Log(Severity::kInfo, "draining", {{"grace_seconds", absl::ToDoubleSeconds(flags.drain_grace)}});
  (*gateway)->Drain();
  Log(Severity::kInfo, "drained");
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  ExitWhenOutOfMemory("kinora-gateway");
  ReturnLargeBuffers();
  const absl::StatusOr<GatewayFlags> flags = ParseGatewayFlags(arguments);
  if (!flags.ok()) return Complain(flags.status());
  if (flags->version) return Print(VersionText("kinora-gateway"));
  if (flags->help) return Print(HelpText(kGatewayHelp, GatewayFlagSpecs()));
  return Serve(*flags);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) { return kinora::Main({argv + 1, argv + argc}); }

// kinora-render: one request, one process, no server. See --help.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/memory.h"
#include "engine/base/version.h"
#include "server/render/render_run.h"

namespace {

std::atomic<bool> g_cancelled{false};

void Cancel(int signal) {
  g_cancelled = true;
  std::signal(signal, SIG_DFL);  // a second signal ends the process at once
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", kinora::ErrorLine(status).c_str());
  return kinora::ExitStatus(status);
}

}  // namespace

int main(int argc, char** argv) {
  kinora::ExitWhenOutOfMemory("kinora-render");
  const auto options = kinora::ParseRenderFlags(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.ok()) return Fail(options.status());
  if (options->help || options->version) {
    std::fputs((options->help ? kinora::RenderUsage() : kinora::VersionText("kinora-render")).c_str(), stdout);
    return 0;
  }
  std::signal(SIGINT, Cancel);
  std::signal(SIGTERM, Cancel);
  std::signal(SIGPIPE, SIG_IGN);
  const absl::Status status = kinora::Render(*options, g_cancelled);
  return status.ok() ? 0 : Fail(status);
}

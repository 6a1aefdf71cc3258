// kinora-render between its flags and its exit status: load, render on the ranks asked for, write, report.
#ifndef KINORA_SERVER_TOOLS_RENDER_RUN_H_
#define KINORA_SERVER_TOOLS_RENDER_RUN_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "server/tools/render_flags.h"

namespace kinora {

// Progress goes to standard error, the summary (one line, JSON with --json) to standard output. `cancelled` is looked
// at after every step: once true, the render ends with Cancelled and leaves no file.
absl::Status Render(const RenderOptions& options, const std::atomic<bool>& cancelled);

// 0 OK; 2 for what the user can put right in the request, the model or the flags, or what is not available yet; 1
// otherwise.
int ExitStatus(const absl::Status& status);

// The message on one line, as it goes to standard error.
std::string ErrorLine(const absl::Status& status);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_RENDER_RUN_H_

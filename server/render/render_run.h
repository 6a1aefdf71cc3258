// Runs kinora-render with its parsed flags: loads, renders on the requested ranks, writes and reports.
#ifndef KINORA_SERVER_RENDER_RENDER_RUN_H_
#define KINORA_SERVER_RENDER_RENDER_RUN_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "server/render/render_flags.h"

namespace kinora {

// Progress goes to standard error, the summary (one line, JSON with --json) to standard output. `cancelled` is checked
// after every step: if it is true, the render ends with Cancelled and leaves no file.
absl::Status Render(const RenderOptions& options, const std::atomic<bool>& cancelled);

// Returns 0 for OK; 2 if the user can correct the request, the model or the flags, or a feature is not available yet;
// otherwise 1.
int ExitStatus(const absl::Status& status);

// Returns the message on one line, for standard error.
std::string ErrorLine(const absl::Status& status);

}  // namespace kinora

#endif  // KINORA_SERVER_RENDER_RENDER_RUN_H_

#include "server/net/grpc_log.h"

#include <grpc/support/log.h>

#include "engine/base/logging.h"
#include "server/common/log_limit.h"

namespace kinora {
namespace {

void OnLine(gpr_log_func_args* line) {
  static auto* limit = new LogLimit(absl::Seconds(1), Clock::Steady());
  const auto not_logged = limit->Admit();
  if (!not_logged.has_value()) return;
  Log(line->severity == GPR_LOG_SEVERITY_ERROR ? Severity::kWarning : Severity::kInfo, "grpc",
      {{"says", line->message}, {"not_logged", *not_logged}});
}

}  // namespace

void TakeGrpcLog() { gpr_set_log_function(&OnLine); }

}  // namespace kinora

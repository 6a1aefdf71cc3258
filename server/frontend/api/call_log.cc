#include "server/frontend/api/call_log.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "server/common/file_error.h"

namespace kinora {

void CallLog::Rejected(const std::string& peer, std::string_view method, const absl::Status& status) {
  metrics_.CountRefused("", {}, status);
  const auto not_logged = refused_.Admit();
  if (!not_logged.has_value()) return;
  Log(Severity::kWarning, "call_refused",
      {{"peer", peer},
       {"method", std::string(method)},
       {"code", absl::StatusCodeToString(status.code())},
       {"not_logged", *not_logged}});
}

void CallLog::Failed(std::string_view method, const absl::Status& status) {
  if (!status.GetPayload(kFilePayload).has_value()) return;
  const auto not_logged = file_errors_.Admit();
  if (!not_logged.has_value()) return;
  Log(Severity::kError, "file_error",
      {{"method", std::string(method)}, {"why", std::string(status.message())}, {"not_logged", *not_logged}});
}

}  // namespace kinora

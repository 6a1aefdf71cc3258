#include "server/frontend/api/call_gate.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"

namespace kinora {
namespace {

constexpr absl::Duration kBetweenLines = absl::Seconds(1);

std::string_view Authorization(const grpc::CallbackServerContext& call) {  // "": none
  const auto found = call.client_metadata().find("authorization");
  if (found == call.client_metadata().end()) return "";
  return std::string_view(found->second.data(), found->second.size());
}

}  // namespace

absl::Status CallGate::Check(const grpc::CallbackServerContext& call) const {
  return tokens_.Check(Authorization(call));
}

void CallGate::CountRefused(const grpc::CallbackServerContext& call, std::string_view method,
                            const absl::Status& status) {
  metrics_.CountRefused("", {}, status);
  int64_t not_logged = 0;
  {
    absl::MutexLock lock(&mu_);
    const absl::Time now = clock_.Now();
    if (now < next_line_) {
      not_logged_ += 1;
      return;
    }
    next_line_ = now + kBetweenLines;
    not_logged = std::exchange(not_logged_, 0);
  }
  Log(Severity::kWarning, "call_refused",
      {{"peer", call.peer()},
       {"method", std::string(method)},
       {"code", absl::StatusCodeToString(status.code())},
       {"not_logged", absl::StrCat(not_logged)}});
}

}  // namespace kinora

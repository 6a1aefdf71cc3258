#include "server/frontend/api/self_check.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"

namespace kinora {
namespace {

constexpr int kDeafAfter = 3;

}  // namespace

SelfCheck::SelfCheck(std::function<absl::Status()> check, Clock& clock)
    : check_(std::move(check)), clock_(clock), thread_([this] { Run(); }) {}

SelfCheck::~SelfCheck() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status SelfCheck::Live() const {
  absl::MutexLock lock(&mu_);
  return failures_ >= kDeafAfter ? last_ : absl::OkStatus();
}

void SelfCheck::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (clock_.AwaitUntil(mu_, absl::Condition(&stopping_), clock_.Now() + kSelfCheckInterval)) return;
    }
    const absl::Status status = check_();
    if (!status.ok()) Log(Severity::kWarning, "self_check_failed", {{"why", std::string(status.message())}});
    absl::MutexLock lock(&mu_);
    failures_ = status.ok() ? 0 : failures_ + 1;
    last_ = status.ok() ? status : absl::UnavailableError(status.message());
  }
}

}  // namespace kinora

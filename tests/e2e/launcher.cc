#include "tests/e2e/launcher.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr absl::Duration kLeaving = absl::Seconds(30);

}  // namespace

Launcher::Launcher(std::vector<std::string> arguments) : arguments_(std::move(arguments)), thread_([this] { Run(); }) {}

void Launcher::Run() {
  while (true) {
    Process* process;
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) break;
      process_ = std::make_unique<Process>(arguments_);
      process = process_.get();
    }
    const int status = process->Wait();
    process->AwaitEndOfOutput();
    absl::MutexLock lock(&mu_);
    statuses_.push_back(status);
    absl::StrAppend(&log_, process->Err());
    process_.reset();
    if (status != kStartAgain && status != 128 + SIGKILL) break;
  }
  absl::MutexLock lock(&mu_);
  ended_ = true;
}

void Launcher::Signal(int signal) {
  absl::MutexLock lock(&mu_);
  if (process_ != nullptr) process_->Signal(signal);
}

void Launcher::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    if (process_ != nullptr) process_->Signal(SIGTERM);
    if (!mu_.AwaitWithTimeout(absl::Condition(&ended_), kLeaving) && process_ != nullptr) process_->Signal(SIGKILL);
  }
  thread_.join();
}

std::vector<int> Launcher::statuses() const {
  absl::MutexLock lock(&mu_);
  return statuses_;
}

std::string Launcher::Log() const {
  absl::MutexLock lock(&mu_);
  return absl::StrCat(log_, process_ == nullptr ? "" : process_->Err());
}

}  // namespace kinora

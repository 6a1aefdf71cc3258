#include "server/frontend/api/watch_reactor.h"

#include <optional>
#include <utility>

#include "server/frontend/api/job_admission.h"

namespace kinora {

WatchReactor::WatchReactor(ServiceContext& context, LeftListener on_left)
    : context_(context), on_left_(std::move(on_left)) {
  context_.gauges.watchers.Increment();
}

std::shared_ptr<WatchReactor> WatchReactor::Make(ServiceContext& context, LeftListener on_left) {
  std::shared_ptr<WatchReactor> reactor(new WatchReactor(context, std::move(on_left)));
  reactor->self_ = reactor;
  return reactor;
}

void WatchReactor::Watch(const JobId& id, int64_t after_sequence) {
  auto watch = JobWatch::Open(context_.events, id, after_sequence, [weak = weak_from_this()] {
    if (const auto reactor = weak.lock()) reactor->Pump();
  });
  bool left = false;
  {
    absl::MutexLock lock(&mu_);
    id_ = id;
    left = done_;
    if (watch.ok() && !done_) watch_ = *watch;
  }
  if (left) {  // the client disconnected while its job was being created
    if (watch.ok()) (*watch)->Close();
    if (on_left_ != nullptr) on_left_(id);
    return;
  }
  if (!watch.ok()) return Fail(watch.status());
  (*watch)->Start();
}

void WatchReactor::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  FinishOnce(status);
}

void WatchReactor::AddReplayedMetadata(grpc::CallbackServerContext& call) {
  absl::MutexLock lock(&mu_);
  if (!finished_) call.AddInitialMetadata("x-kinora-replayed", "true");  // afterwards `call` may be gone
}

void WatchReactor::Pump() {
  absl::MutexLock lock(&mu_);
  if (watch_ == nullptr || writing_ || finished_ || done_) return;
  if (terminal_) return FinishOnce(absl::OkStatus());
  absl::StatusOr<std::optional<v1::VideoEvent>> next = watch_->Next();
  if (!next.ok()) return FinishOnce(next.status());
  if (!next->has_value()) return;
  writing_event_ = **std::move(next);
  if (writing_event_.has_snapshot()) AddLiveFields(context_, *writing_event_.mutable_snapshot());
  terminal_ = writing_event_.has_terminal();
  writing_ = true;
  StartWrite(&writing_event_);
}

void WatchReactor::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) {
      terminal_ = false;  // it did not arrive
      FinishOnce(absl::CancelledError("the client disconnected"));
    }
  }
  Pump();
}

void WatchReactor::OnCancel() {
  absl::MutexLock lock(&mu_);
  FinishOnce(absl::CancelledError("the client disconnected"));
}

void WatchReactor::FinishOnce(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  Finish(status);
}

void WatchReactor::OnDone() {
  std::shared_ptr<JobWatch> watch;
  JobId id;
  bool terminal;
  {
    absl::MutexLock lock(&mu_);
    watch = std::move(watch_);
    id = id_;
    terminal = terminal_;
    done_ = true;
  }
  if (watch != nullptr) watch->Close();  // without mu_, which a running wake may be waiting for
  context_.gauges.watchers.Decrement();
  if (on_left_ != nullptr && !id.empty() && !terminal) on_left_(id);
  self_.reset();
}

}  // namespace kinora

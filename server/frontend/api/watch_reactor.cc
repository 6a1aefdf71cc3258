#include "server/frontend/api/watch_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/frontend/api/job_admission.h"
#include "server/frontend/jobs/job_record.h"

namespace kinora {

namespace {

// Recreates the event that ended the job.
v1::VideoEvent TerminalEvent(const JobHistory& history) {
  v1::VideoEvent event;
  event.set_video_id(history.video.id());
  event.set_sequence(history.last_sequence);
  *event.mutable_time() = history.video.end_time();
  *event.mutable_terminal() = history.video;
  return event;
}

}  // namespace

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
  // Subscribes before reading the history, so that no event is missed between the two.
  auto subscription = context_.hub.Subscribe(id, [weak = weak_from_this()] {
    if (const auto reactor = weak.lock()) reactor->Pump();
  });
  bool left = false;
  {
    absl::MutexLock lock(&mu_);
    id_ = id;
    left = done_;
    if (subscription.ok() && !done_) subscription_ = *subscription;
  }
  if (left) {  // the client disconnected while its job was being created
    if (subscription.ok()) (*subscription)->Close();
    if (on_left_ != nullptr) on_left_(id);
    return;
  }
  if (!subscription.ok()) return Fail(subscription.status());
  context_.store.EventsAfter(id, after_sequence,
                             [reactor = shared_from_this(), after_sequence](absl::StatusOr<JobHistory> history) {
                               reactor->OnHistory(std::move(history), after_sequence);
                             });
}

void WatchReactor::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  FinishOnce(status);
}

void WatchReactor::AddReplayedMetadata(grpc::CallbackServerContext& call) {
  absl::MutexLock lock(&mu_);
  if (!finished_) call.AddInitialMetadata("x-kinora-replayed", "true");  // afterwards `call` may be gone
}

void WatchReactor::OnHistory(absl::StatusOr<JobHistory> history, int64_t after_sequence) {
  if (!history.ok()) return Fail(history.status());
  if (after_sequence > history->last_sequence) {
    return Fail(InvalidField(
        "after_sequence", absl::StrCat(after_sequence, " is after the last event; nearest: ", history->last_sequence)));
  }
  // The client has all events, but may not know that the last one ended the job.
  if (history->events.empty() && IsTerminal(history->video.state())) history->events.push_back(TerminalEvent(*history));
  v1::VideoEvent snapshot;
  snapshot.set_video_id(history->video.id());
  snapshot.set_sequence(after_sequence);  // a stream that breaks here resumes after what the client has
  // The time of the last stored event, so that a client can tell which events the snapshot includes.
  if (!history->events.empty()) *snapshot.mutable_time() = history->events.back().time();
  *snapshot.mutable_snapshot() = std::move(history->video);
  AddLiveFields(context_, *snapshot.mutable_snapshot());
  {
    absl::MutexLock lock(&mu_);
    last_sequence_ = after_sequence;
    history_.push_back(std::move(snapshot));
    for (v1::VideoEvent& event : history->events) history_.push_back(std::move(event));
    ready_ = true;
  }
  Pump();
}

bool WatchReactor::NextEvent(v1::VideoEvent& event) {
  if (!history_.empty()) {
    event = std::move(history_.front());
    history_.pop_front();
    last_sequence_ = event.sequence();
    return true;
  }
  while (auto next = subscription_->Next()) {
    if (next->sequence() == 0) {  // step, preview, heartbeat
      next->set_sequence(last_sequence_);
    } else if (next->sequence() <= last_sequence_) {
      continue;  // was in the history
    } else {
      last_sequence_ = next->sequence();
    }
    event = *std::move(next);
    return true;
  }
  return false;
}

void WatchReactor::Pump() {
  absl::MutexLock lock(&mu_);
  if (!ready_ || writing_ || finished_ || done_) return;
  if (terminal_) return FinishOnce(absl::OkStatus());
  if (!NextEvent(writing_event_)) return;
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
  std::shared_ptr<Subscription> subscription;
  JobId id;
  bool terminal;
  {
    absl::MutexLock lock(&mu_);
    subscription = std::move(subscription_);
    id = id_;
    terminal = terminal_;
    done_ = true;
  }
  if (subscription != nullptr) subscription->Close();  // without mu_, which a running wake may be waiting for
  context_.gauges.watchers.Decrement();
  if (on_left_ != nullptr && !id.empty() && !terminal) on_left_(id);
  self_.reset();
}

}  // namespace kinora

#include "server/frontend/jobs/event_hub.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

// Whether the step is of an earlier stage or attempt. A step can overtake the event of its own stage and is then kept.
bool IsPast(const v1::Progress& step, const v1::VideoEvent& stored) {
  return !stored.has_stage() || stored.stage().stage() != step.stage();
}

// Whether the event makes the previews obsolete.
bool EndsAttempt(const v1::VideoEvent& stored) {
  return stored.has_terminal() || (stored.has_state() && stored.state().state() == v1::Video::QUEUED);
}

}  // namespace

Subscription::Subscription(EventHub& hub, std::string video_id, std::function<void()> wake)
    : hub_(hub), video_id_(std::move(video_id)), wake_(std::move(wake)), last_activity_(hub.clock_.Now()) {}

Subscription::~Subscription() { Close(); }

std::optional<v1::VideoEvent> Subscription::Next() {
  absl::MutexLock lock(&mu_);
  std::optional<v1::VideoEvent> event;
  if (!stored_.empty()) {
    event = std::move(stored_.front());
    stored_.pop_front();
  } else if (step_.has_value() && !(preview_.has_value() && step_was_last_)) {
    event = std::exchange(step_, std::nullopt);
    step_was_last_ = true;
  } else if (preview_.has_value()) {
    event = std::exchange(preview_, std::nullopt);
    step_was_last_ = false;
  } else if (std::exchange(heartbeat_, false)) {
    event.emplace();
    event->set_video_id(video_id_);
    *event->mutable_time() = ToProto(hub_.clock_.Now());
    event->mutable_heartbeat();
  }
  if (event.has_value()) last_activity_ = hub_.clock_.Now();
  return event;
}

void Subscription::Close() {
  {
    absl::MutexLock lock(&wake_mu_);
    if (wake_ == nullptr) return;
    wake_ = nullptr;
  }
  hub_.Remove(this);
}

void Subscription::Deliver(const v1::VideoEvent& event) {
  {
    absl::MutexLock lock(&mu_);
    switch (event.event_case()) {
      case v1::VideoEvent::kStep:
        step_ = event;
        break;
      case v1::VideoEvent::kPreview:
        preview_ = event;
        break;
      default:
        stored_.push_back(event);
        if (step_.has_value() && IsPast(step_->step(), event)) step_.reset();
        if (EndsAttempt(event)) preview_.reset();
    }
  }
  Wake();
}

bool Subscription::BeatIfSilent(absl::Time now, absl::Duration interval, absl::Time& next) {
  absl::MutexLock lock(&mu_);
  const bool due = now - last_activity_ >= interval;
  if (due) {
    heartbeat_ = true;
    last_activity_ = now;
  }
  next = std::min(next, last_activity_ + interval);
  return due;
}

void Subscription::Wake() {
  absl::MutexLock lock(&wake_mu_);
  if (wake_ != nullptr) wake_();
}

EventHub::EventHub(Clock& clock, absl::Duration heartbeat_interval, int max_subscriptions)
    : clock_(clock),
      heartbeat_interval_(heartbeat_interval),
      max_subscriptions_(max_subscriptions),
      heartbeats_([this] { SendHeartbeats(); }) {}

EventHub::~EventHub() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  heartbeats_.join();
}

absl::StatusOr<std::shared_ptr<Subscription>> EventHub::Subscribe(const std::string& video_id,
                                                                  std::function<void()> wake) {
  absl::MutexLock lock(&mu_);
  if (count_ >= max_subscriptions_) {
    return WithRetryInfo(
        absl::ResourceExhaustedError(absl::StrCat("max_watchers: ", max_subscriptions_, " watches are already open")),
        absl::Seconds(5));
  }
  // Not make_shared, because the constructor is private.
  std::shared_ptr<Subscription> subscription(new Subscription(*this, video_id, std::move(wake)));
  if (const auto shown = latest_previews_.find(video_id); shown != latest_previews_.end()) {
    absl::MutexLock own(&subscription->mu_);
    subscription->preview_ = shown->second;
  }
  by_video_[video_id].push_back({subscription.get(), subscription});
  count_ += 1;
  return subscription;
}

void EventHub::Publish(const v1::VideoEvent& event) {
  {
    absl::MutexLock lock(&mu_);
    const auto step = latest_steps_.find(event.video_id());
    if (step != latest_steps_.end() && IsPast(step->second, event)) latest_steps_.erase(step);
    if (EndsAttempt(event)) latest_previews_.erase(event.video_id());
  }
  for (const auto& subscription : Of(event.video_id())) subscription->Deliver(event);
}

void EventHub::PublishStep(v1::VideoEvent event) {
  *event.mutable_time() = ToProto(clock_.Now());
  if (event.has_step()) {
    absl::MutexLock lock(&mu_);
    latest_steps_[event.video_id()] = event.step();
  }
  if (event.has_preview()) {
    absl::MutexLock lock(&mu_);
    latest_previews_[event.video_id()] = event;
  }
  for (const auto& subscription : Of(event.video_id())) subscription->Deliver(event);
}

void EventHub::AddLatestStep(v1::Video& video) const {
  if (video.state() != v1::Video::RUNNING) return;
  absl::MutexLock lock(&mu_);
  const auto found = latest_steps_.find(video.id());
  if (found != latest_steps_.end()) *video.mutable_progress() = found->second;
}

int EventHub::subscriptions() const {
  absl::MutexLock lock(&mu_);
  return count_;
}

int EventHub::subscriptions(const std::string& video_id) const {
  absl::MutexLock lock(&mu_);
  const auto found = by_video_.find(video_id);
  return found == by_video_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<std::string> EventHub::watched() const {
  std::vector<std::string> ids;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [id, entries] : by_video_) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::shared_ptr<Subscription>> EventHub::Of(const std::string& video_id) {
  std::vector<std::shared_ptr<Subscription>> alive;
  absl::MutexLock lock(&mu_);
  const auto found = by_video_.find(video_id);
  if (found == by_video_.end()) return alive;
  for (const Entry& entry : found->second) {
    if (auto subscription = entry.subscription.lock()) alive.push_back(std::move(subscription));
  }
  return alive;
}

void EventHub::Remove(Subscription* subscription) {
  absl::MutexLock lock(&mu_);
  const auto found = by_video_.find(subscription->video_id_);
  if (found == by_video_.end()) return;
  count_ -= static_cast<int>(std::erase_if(found->second, [&](const Entry& e) { return e.key == subscription; }));
  if (found->second.empty()) by_video_.erase(found);
}

void EventHub::SendHeartbeats() {
  absl::Time next = clock_.Now() + heartbeat_interval_;
  while (true) {
    std::vector<std::shared_ptr<Subscription>> alive;
    {
      absl::MutexLock lock(&mu_);
      if (clock_.AwaitUntil(mu_, absl::Condition(&stopping_), next)) return;
      for (const auto& [id, entries] : by_video_) {
        for (const Entry& entry : entries) {
          if (auto subscription = entry.subscription.lock()) alive.push_back(std::move(subscription));
        }
      }
    }
    const absl::Time now = clock_.Now();
    next = now + heartbeat_interval_;
    for (const auto& subscription : alive) {
      if (subscription->BeatIfSilent(now, heartbeat_interval_, next)) subscription->Wake();
    }
  }
}

}  // namespace kinora

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

constexpr absl::Duration kAsked = absl::Seconds(10);
constexpr size_t kMostAsked = 1000;

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
  if (const Latest* shown = Find(video_id); shown != nullptr && shown->preview) {
    absl::MutexLock own(&subscription->mu_);
    subscription->preview_ = shown->preview;
  }
  by_video_[video_id].push_back({subscription.get(), subscription});
  count_ += 1;
  return subscription;
}

void EventHub::Publish(const v1::VideoEvent& event) {
  {
    absl::MutexLock lock(&mu_);
    for (auto* runs : {&here_, &elsewhere_}) {
      const auto latest = runs->find(event.video_id());
      if (latest == runs->end()) continue;
      Latest& marks = latest->second;
      if (marks.step && IsPast(marks.step->step(), event)) marks.step.reset();
      if (EndsAttempt(event)) marks.preview.reset();
      if (!marks.step && !marks.preview) runs->erase(latest);
    }
  }
  Deliver(event);
}

void EventHub::Deliver(const v1::VideoEvent& event) {
  for (const auto& subscription : Of(event.video_id())) subscription->Deliver(event);
}

void EventHub::PublishStep(v1::VideoEvent event) {
  *event.mutable_time() = ToProto(clock_.Now());
  {
    absl::MutexLock lock(&mu_);
    Latest& marks = here_[event.video_id()];
    (event.has_step() ? marks.step : marks.preview) = event;
    (event.has_step() ? marks.step_version : marks.preview_version) = ++version_;
    elsewhere_.erase(event.video_id());
  }
  Deliver(event);
}

void EventHub::AddLatestStep(v1::Video& video) {
  if (video.state() != v1::Video::RUNNING) return;
  absl::MutexLock lock(&mu_);
  if (!here_.contains(video.id()) && asked_.size() < kMostAsked) asked_[video.id()] = clock_.Now();
  const Latest* const found = Find(video.id());
  if (found != nullptr && found->step) *video.mutable_progress() = found->step->step();
}

const EventHub::Latest* EventHub::Find(const std::string& video_id) const {
  for (const auto* runs : {&here_, &elsewhere_}) {
    if (const auto found = runs->find(video_id); found != runs->end()) return &found->second;
  }
  return nullptr;
}

std::optional<EventHub::Latest> EventHub::LatestHere(const std::string& video_id) const {
  absl::MutexLock lock(&mu_);
  const auto found = here_.find(video_id);
  return found == here_.end() ? std::nullopt : std::optional(found->second);
}

void EventHub::EndHere(const std::string& video_id) {
  absl::MutexLock lock(&mu_);
  here_.erase(video_id);
}

std::vector<std::string> EventHub::WantedFromElsewhere() {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_.Now();
  std::erase_if(asked_, [&](const auto& entry) { return now - entry.second >= kAsked || now < entry.second; });
  std::erase_if(elsewhere_, [&](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !asked_.contains(entry.first) && !by_video_.contains(entry.first);
  });
  std::vector<std::string> ids;
  for (const auto& [id, time] : asked_) {
    if (!here_.contains(id)) ids.push_back(id);
  }
  for (const auto& [id, entries] : by_video_) {
    if (!here_.contains(id) && !asked_.contains(id)) ids.push_back(id);
  }
  return ids;
}

void EventHub::Relay(const v1::VideoEvent& event) {
  if (!event.has_step() && !event.has_preview()) return;
  {
    absl::MutexLock lock(&mu_);
    if (here_.contains(event.video_id())) return;
    if (!by_video_.contains(event.video_id()) && !asked_.contains(event.video_id())) return;
    Latest& marks = elsewhere_[event.video_id()];
    (event.has_step() ? marks.step : marks.preview) = event;
  }
  Deliver(event);
}

void EventHub::EndRelay(const std::string& video_id) {
  absl::MutexLock lock(&mu_);
  elsewhere_.erase(video_id);
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

// Distributes events to watchers. A subscription is a mailbox that keeps all stored events in order, but only the
// latest step and preview, so a slow reader costs little memory and misses no stored event. Thread-safe.
//
// Stored events come from the JobStore's listener (Publish), steps and previews from the dispatcher (PublishStep), or,
// for runs at other frontends, from them (Relay).
#ifndef KINORA_SERVER_FRONTEND_JOBS_EVENT_HUB_H_
#define KINORA_SERVER_FRONTEND_JOBS_EVENT_HUB_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

class EventHub;

// One watcher's mailbox. `wake` runs when the mailbox may have an event; see EventHub::Subscribe.
class Subscription {
 public:
  ~Subscription();
  // Returns the next event: stored ones in order, then the latest step, preview or heartbeat; nullopt if there is none.
  std::optional<v1::VideoEvent> Next();
  // After it returns no `wake` starts, and none is running unless this was called from inside it. Idempotent.
  void Close();

 private:
  friend class EventHub;
  Subscription(EventHub& hub, std::string video_id, std::function<void()> wake);
  void Deliver(const v1::VideoEvent& event);
  // Adds a heartbeat and returns true if no event was taken for `interval`. Lowers `next` to the time of the next
  // check.
  bool BeatIfSilent(absl::Time now, absl::Duration interval, absl::Time& next);
  void Wake();

  EventHub& hub_;
  const std::string video_id_;
  absl::Mutex wake_mu_;  // held while `wake_` runs; taken before mu_
  std::function<void()> wake_ ABSL_GUARDED_BY(wake_mu_);
  absl::Mutex mu_;
  std::deque<v1::VideoEvent> stored_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::VideoEvent> step_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::VideoEvent> preview_ ABSL_GUARDED_BY(mu_);
  bool step_was_last_ ABSL_GUARDED_BY(mu_) = false;  // so that a stream of steps does not starve previews
  bool heartbeat_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time last_activity_ ABSL_GUARDED_BY(mu_);
};

class EventHub {
 public:
  EventHub(Clock& clock, absl::Duration heartbeat_interval, int max_subscriptions);
  ~EventHub();  // every Subscription must be closed

  // Fails with ResourceExhausted above max_subscriptions. `wake` runs on the publisher's or the heartbeat thread and
  // must not block.
  absl::StatusOr<std::shared_ptr<Subscription>> Subscribe(const std::string& video_id, std::function<void()> wake);

  void Publish(const v1::VideoEvent& event);  // a stored event, with its sequence
  void PublishStep(v1::VideoEvent event);     // step or preview; the hub sets `time`, the watch `sequence`

  // Sets `progress` of a running video from its latest step, which is not stored.
  void AddLatestStep(v1::Video& video);

  // The latest step and preview of a run at this frontend. A version is greater than all earlier ones of the hub.
  struct Latest {
    std::optional<v1::VideoEvent> step{}, preview{};
    int64_t step_version = 0, preview_version = 0;
  };
  std::optional<Latest> LatestHere(const std::string& video_id) const;
  void EndHere(const std::string& video_id);  // the run here has ended, perhaps without an event
  // Videos that are watched, or were the subject of AddLatestStep in the last kAsked, and that may run elsewhere.
  std::vector<std::string> WantedFromElsewhere();
  void Relay(const v1::VideoEvent& event);     // a step or preview of a run elsewhere
  void EndRelay(const std::string& video_id);  // the run has no step or preview any more

  int subscriptions() const;
  int subscriptions(const std::string& video_id) const;  // of this video
  std::vector<std::string> watched() const;              // the videos that have any, sorted

 private:
  friend class Subscription;
  void Remove(Subscription* subscription);
  void SendHeartbeats();
  std::vector<std::shared_ptr<Subscription>> Of(const std::string& video_id);
  void Deliver(const v1::VideoEvent& event);
  const Latest* Find(const std::string& video_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // null: there is none

  Clock& clock_;
  const absl::Duration heartbeat_interval_;
  const int max_subscriptions_;
  mutable absl::Mutex mu_;
  struct Entry {
    Subscription* key;  // identifies the entry after the weak pointer has expired
    std::weak_ptr<Subscription> subscription;
  };
  std::unordered_map<std::string, std::vector<Entry>> by_video_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, Latest> here_ ABSL_GUARDED_BY(mu_);       // of running videos
  std::unordered_map<std::string, Latest> elsewhere_ ABSL_GUARDED_BY(mu_);  // likewise, relayed
  std::unordered_map<std::string, absl::Time> asked_ ABSL_GUARDED_BY(mu_);  // AddLatestStep
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread heartbeats_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_EVENT_HUB_H_

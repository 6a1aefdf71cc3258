#include "server/frontend/jobs/shared_events.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace kinora {

SharedEvents::SharedEvents(EventHub& hub, JobStore& store, absl::Duration interval, std::unique_ptr<Executor> loop)
    : hub_(hub), store_(store), interval_(interval), loop_(std::move(loop)) {
  PollLater();
}

void SharedEvents::Hear(const v1::VideoEvent& event) {
  {
    absl::MutexLock lock(&mu_);
    const auto known = heard_.find(event.video_id());
    if (known != heard_.end()) known->second = std::max(known->second, event.sequence());
  }
  hub_.Publish(event);
}

void SharedEvents::PollLater() {
  loop_->PostAt(loop_->Now() + interval_, [this] { Poll(); });
}

void SharedEvents::Poll() {
  std::map<JobId, int64_t> watched;
  for (const JobId& id : hub_.watched()) watched[id] = 0;
  {
    absl::MutexLock lock(&mu_);
    for (auto& [id, heard] : watched) {
      if (const auto known = heard_.find(id); known != heard_.end()) heard = known->second;
    }
    heard_ = watched;
  }
  to_read_.assign(watched.begin(), watched.end());
  ReadNext();
}

// One after the other, so that clients' reads do not wait behind all of them.
void SharedEvents::ReadNext() {
  if (to_read_.empty()) return PollLater();
  const auto [id, heard] = to_read_.back();
  to_read_.pop_back();
  store_.EventsAfter(id, heard, [this, id = id](absl::StatusOr<JobHistory> history) {
    loop_->Post([this, id, history = std::move(history)] {
      OnRead(id, history);
      ReadNext();
    });
  });
}

void SharedEvents::ReadNow(std::vector<JobId> ids) {
  loop_->Post([this, ids = std::move(ids)] {
    for (const JobId& id : ids) {
      if (hub_.subscriptions(id) == 0) continue;
      int64_t heard = 0;
      {
        absl::MutexLock lock(&mu_);
        if (const auto known = heard_.find(id); known != heard_.end()) heard = known->second;
      }
      store_.EventsAfter(id, heard, [this, id](absl::StatusOr<JobHistory> history) {
        loop_->Post([this, id, history = std::move(history)] { OnRead(id, history); });
      });
    }
  });
}

// The last event suffices: a watch that misses others reads them. After an error the next poll follows as usual.
void SharedEvents::OnRead(const JobId& id, const absl::StatusOr<JobHistory>& history) {
  if (history.ok() && !history->events.empty()) Hear(history->events.back());
  if (absl::IsNotFound(history.status())) {  // another frontend has deleted it: its watches read, and end
    v1::VideoEvent behind_all;
    behind_all.set_video_id(id);
    behind_all.set_sequence(std::numeric_limits<int64_t>::max());
    hub_.Publish(behind_all);
  }
}

}  // namespace kinora

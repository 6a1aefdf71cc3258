// The events of a store that several frontends write. What others commit for watched jobs is read at intervals.
// Thread-safe.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SHARED_EVENTS_H_
#define KINORA_SERVER_FRONTEND_JOBS_SHARED_EVENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/frontend/jobs/event_source.h"
#include "server/net/executor.h"

namespace kinora {

class SharedEvents : public EventSource {
 public:
  // Neither is owned; flush the store after Stop. loop: polls there, `interval` after the answers to the poll before.
  SharedEvents(EventHub& hub, JobStore& store, absl::Duration interval, std::unique_ptr<Executor> loop);
  ~SharedEvents() override { Stop(); }
  void Stop() { loop_->Stop(); }

  void Hear(const v1::VideoEvent& event);  // news of a committed event: lost, repeated or out of order at worst
  // Reads the events of those of these jobs that are watched, now instead of at the next poll. Any thread.
  void ReadNow(std::vector<JobId> ids);

  absl::StatusOr<std::shared_ptr<Subscription>> Subscribe(const JobId& id, std::function<void()> wake) override {
    return hub_.Subscribe(id, std::move(wake));
  }
  void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) override {
    store_.EventsAfter(id, sequence, std::move(done));
  }

 private:
  void PollLater();
  void Poll();
  void ReadNext();
  void OnRead(const JobId& id, const absl::StatusOr<JobHistory>& history);

  EventHub& hub_;
  JobStore& store_;
  const absl::Duration interval_;
  absl::Mutex mu_;
  std::map<JobId, int64_t> heard_ ABSL_GUARDED_BY(mu_);  // watched jobs: the greatest sequence that was published
  std::vector<std::pair<JobId, int64_t>> to_read_;       // in this poll, and after which sequence; on the loop
  const std::unique_ptr<Executor> loop_;                 // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SHARED_EVENTS_H_

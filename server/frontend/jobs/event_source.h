// Where watchers get the events of a job: news of events as they are committed, and the stored events themselves.
//
// News may be incomplete, repeated or out of order: the events of one process arrive through its store's listener, in
// commit order, but those that another process commits can only be found later, by a poll. JobWatch (job_watch.h)
// makes one ordered stream of both.
#ifndef KINORA_SERVER_FRONTEND_JOBS_EVENT_SOURCE_H_
#define KINORA_SERVER_FRONTEND_JOBS_EVENT_SOURCE_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

class EventSource {  // thread-safe
 public:
  virtual ~EventSource() = default;

  // As EventHub::Subscribe. Promises only that the mailbox gets the job's last event: each time an event is committed
  // after this call, the mailbox gets that event or a later one.
  virtual absl::StatusOr<std::shared_ptr<Subscription>> Subscribe(const JobId& id, std::function<void()> wake) = 0;
  // As JobStore::EventsAfter. Includes all events that a mailbox has got before this call.
  virtual void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) = 0;
};

// The events of a store whose only writer is this process: the store's listener publishes each to the hub.
class OwnEvents : public EventSource {
 public:
  OwnEvents(EventHub& hub, JobStore& store) : hub_(hub), store_(store) {}  // neither is owned

  absl::StatusOr<std::shared_ptr<Subscription>> Subscribe(const JobId& id, std::function<void()> wake) override {
    return hub_.Subscribe(id, std::move(wake));
  }
  void EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) override {
    store_.EventsAfter(id, sequence, std::move(done));
  }

 private:
  EventHub& hub_;
  JobStore& store_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_EVENT_SOURCE_H_

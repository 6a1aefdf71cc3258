// Lets the calls to one frontend begin a few at a time. A frontend accepts 32 calls of all its clients whose message it
// has not read, and fails the oldest when there is one more (server/frontend/api/message_reads.h). Further calls wait
// here, in order, and nowhere else.
#ifndef KINORA_SERVER_GATEWAY_CALL_QUEUE_H_
#define KINORA_SERVER_GATEWAY_CALL_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/net/event_loop.h"

namespace kinora {

struct CallQueueLimits {
  // Calls that have begun and whose message the frontend may not have read. Half of the frontend's limit: it has other
  // clients.
  int beginning = 16;
  size_t waiting = 2000;                    // one more fails
  absl::Duration wait = absl::Seconds(10);  // then a call fails
};

class CallQueue {  // thread-safe
 public:
  // The place of a call that begins. Release it once the frontend is known to have read the call's message: at its
  // reply or, for a stream, its first metadata.
  using Place = std::shared_ptr<void>;
  using OnTurn = std::function<void(absl::StatusOr<Place>)>;

  explicit CallQueue(const CallQueueLimits& limits, Clock& clock = Clock::Steady()) : limits_(limits), loop_(clock) {}

  // Calls back once: with a place, before the return or on the thread that releases one; or with an error, on a thread
  // of the queue: Unavailable with RetryInfo beyond a limit, Cancelled after Leave. Returns a number for Leave.
  int64_t Enter(OnTurn on_turn) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the wait. No effect on a call that has its place.
  void Leave(int64_t call) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiter {
    absl::Time deadline;
    OnTurn on_turn;
  };
  Place MakePlace();
  void Release() ABSL_LOCKS_EXCLUDED(mu_);
  void FailLate() ABSL_LOCKS_EXCLUDED(mu_);

  const CallQueueLimits limits_;
  absl::Mutex mu_;
  int beginning_ ABSL_GUARDED_BY(mu_) = 0;  // the limit, if any call waits
  std::map<int64_t, Waiter> waiting_ ABSL_GUARDED_BY(mu_);
  int64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  bool timer_set_ ABSL_GUARDED_BY(mu_) = false;
  EventLoop loop_;  // last: its tasks use the members above
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_CALL_QUEUE_H_

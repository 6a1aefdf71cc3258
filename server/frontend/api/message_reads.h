// Bounds the calls that wait for a message. gRPC 1.51 collects a message of any length that its sender announces and
// compares it with max_receive_message_size only once it is complete, so memory is bounded by the number of waiting
// calls and by their time. A message that came with its headers is read at once, however many calls wait.
#ifndef KINORA_SERVER_FRONTEND_API_MESSAGE_READS_H_
#define KINORA_SERVER_FRONTEND_API_MESSAGE_READS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/net/event_loop.h"

namespace kinora {

struct MessageReadLimits {
  int calls;            // concurrent; one more aborts the oldest with RESOURCE_EXHAUSTED and RetryInfo
  absl::Duration time;  // per call; then the call is aborted with DEADLINE_EXCEEDED
};

class MessageReads {  // thread-safe
 public:
  using GiveUp = std::function<void(const absl::Status&)>;

  MessageReads(const MessageReadLimits& limits, Clock& clock) : limits_(limits), loop_(clock) {}

  // Registers a read and returns its number. `give_up` runs at most once, without a lock, and never after End returned
  // true.
  int64_t Begin(GiveUp give_up) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the read, with or without a message. Returns false if it was given up before.
  bool End(int64_t read) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Read {
    absl::Time deadline;
    GiveUp give_up;
  };
  void GiveUpLate() ABSL_LOCKS_EXCLUDED(mu_);

  const MessageReadLimits limits_;
  absl::Mutex mu_;
  std::map<int64_t, Read> reads_ ABSL_GUARDED_BY(mu_);  // oldest first
  int64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  bool timer_set_ ABSL_GUARDED_BY(mu_) = false;
  EventLoop loop_;  // last: its tasks use the members above
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_MESSAGE_READS_H_

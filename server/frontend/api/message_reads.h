// Calls whose message is on its way. gRPC 1.51 collects a message of whatever length its sender announces and compares
// that with max_receive_message_size only once it is there, so memory is bounded by how many calls are at it, and for
// how long. A message that came with its headers is there at once, however many others are waited for.
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
#include "server/common/event_loop.h"

namespace kinora {

struct MessageReadLimits {
  int calls;            // at once; one more gives the oldest up with RESOURCE_EXHAUSTED
  absl::Duration time;  // of each; then it is given up with DEADLINE_EXCEEDED
};

class MessageReads {  // thread-safe
 public:
  using GiveUp = std::function<void(const absl::Status&)>;

  MessageReads(const MessageReadLimits& limits, Clock& clock) : limits_(limits), loop_(clock) {}

  // A read begins. `give_up` runs at most once, without a lock, and never after End was true.
  int64_t Begin(GiveUp give_up) ABSL_LOCKS_EXCLUDED(mu_);
  // It is over, with a message or without. False: it was given up before.
  bool End(int64_t read) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Read {
    absl::Time deadline;
    GiveUp give_up;
  };
  void GiveUpLate() ABSL_LOCKS_EXCLUDED(mu_);

  const MessageReadLimits limits_;
  absl::Mutex mu_;
  std::map<int64_t, Read> reads_ ABSL_GUARDED_BY(mu_);  // by age
  int64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  bool timer_set_ ABSL_GUARDED_BY(mu_) = false;
  EventLoop loop_;  // its tasks use what stands above
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_MESSAGE_READS_H_

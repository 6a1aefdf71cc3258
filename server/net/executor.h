// Runs closures one after another, in the order in which they were posted, and at given times. State that only the
// tasks of one executor touch needs no lock.
#ifndef KINORA_SERVER_NET_EXECUTOR_H_
#define KINORA_SERVER_NET_EXECUTOR_H_

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace kinora {

class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;

  virtual ~Executor() = default;
  virtual void Post(Task task) = 0;  // any thread; after Stop the task is destroyed without running
  virtual void PostAt(absl::Time time, Task task) = 0;
  virtual absl::Time Now() const = 0;  // of the clock of PostAt
  // Waits for the running task and drops the others. Must not be called by a task. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_EXECUTOR_H_

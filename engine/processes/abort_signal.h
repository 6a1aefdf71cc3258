// Signals that this rank's group is lost: no other rank will reach the collectives and rendezvous that it waits in.
#ifndef KINORA_ENGINE_PROCESSES_ABORT_SIGNAL_H_
#define KINORA_ENGINE_PROCESSES_ABORT_SIGNAL_H_

#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kinora {

class AbortSignal {  // thread-safe
 public:
  // Calls all present and later listeners. Raising it again does nothing.
  void Raise() {
    absl::MutexLock lock(&mu_);
    if (std::exchange(raised_, true)) return;
    for (const auto& end : listeners_) end();
  }

  // Calls `end` once the signal is raised: on the thread that raises it, or in the constructor if it was raised before.
  // The destructor waits for a call in progress. `end` ends a wait; it must neither block nor use this signal.
  class Listener {
   public:
    Listener(AbortSignal& signal, std::function<void()> end) : signal_(signal) {
      absl::MutexLock lock(&signal_.mu_);
      if (signal_.raised_) end();
      place_ = signal_.listeners_.insert(signal_.listeners_.end(), std::move(end));
    }
    ~Listener() {
      absl::MutexLock lock(&signal_.mu_);
      signal_.listeners_.erase(place_);
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    AbortSignal& signal_;
    std::list<std::function<void()>>::iterator place_;
  };

 private:
  absl::Mutex mu_;
  bool raised_ ABSL_GUARDED_BY(mu_) = false;
  std::list<std::function<void()>> listeners_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_ABORT_SIGNAL_H_

// Stops pending calls, and the pauses between calls, after Ctrl-C.
#ifndef KINORA_SERVER_CLIENT_HALT_H_
#define KINORA_SERVER_CLIENT_HALT_H_

#include <grpcpp/client_context.h>

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kinora {

class Halt {  // thread-safe
 public:
  // From now on calls end with CANCELLED and pauses end at once. Idempotent.
  void Raise() {
    absl::MutexLock lock(&mu_);
    raised_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }
  bool raised() const {
    absl::MutexLock lock(&mu_);
    return raised_;
  }
  // Waits. Returns false if the halt was raised before or during the pause.
  bool Pause(absl::Duration pause) {
    absl::MutexLock lock(&mu_);
    return !mu_.AwaitWithTimeout(absl::Condition(&raised_), pause);
  }

  class Call {  // registers a call with the halt; must outlive the call
   public:
    Call(Halt& halt, grpc::ClientContext& context) : halt_(halt), context_(context) {
      absl::MutexLock lock(&halt_.mu_);
      halt_.calls_.insert(&context_);
      if (halt_.raised_) context_.TryCancel();
    }
    ~Call() {
      absl::MutexLock lock(&halt_.mu_);
      halt_.calls_.erase(&context_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Halt& halt_;
    grpc::ClientContext& context_;
  };

 private:
  mutable absl::Mutex mu_;
  bool raised_ ABSL_GUARDED_BY(mu_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_HALT_H_

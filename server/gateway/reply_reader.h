// Reads the replies of a streaming call one at a time, when asked: gRPC's flow control then holds back a frontend whose
// reader is slow. The call begins at its turn in a CallQueue, and gives up its place at the frontend's first metadata.
#ifndef KINORA_SERVER_GATEWAY_REPLY_READER_H_
#define KINORA_SERVER_GATEWAY_REPLY_READER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/gateway/call_queue.h"
#include "server/net/grpc_status.h"

namespace kinora {

template <typename Reply>
class ReplyReader : public grpc::ClientReadReactor<Reply>, public std::enable_shared_from_this<ReplyReader<Reply>> {
 public:
  // nullopt: the stream has ended with OK.
  using OnNext = std::function<void(absl::StatusOr<std::optional<Reply>>)>;

  // Gives the call to a stub, with this as its reactor.
  using Start = std::function<void(grpc::ClientContext& context, ReplyReader* reactor)>;

  // lease: kept until this reader is destroyed, and with it `queue`.
  ReplyReader(std::shared_ptr<void> lease, CallQueue& queue) : lease_(std::move(lease)), queue_(queue) {}

  // The context of the call, before Begin.
  grpc::ClientContext& context() { return context_; }
  // Call once, before Next and Cancel.
  void Begin(Start start) {
    turn_ = queue_.Enter(
        [self = this->shared_from_this(), start = std::move(start)](absl::StatusOr<CallQueue::Place> place) {
          place.ok() ? self->OnTurn(start, *std::move(place)) : self->OnNoTurn(place.status());
        });
  }

  // Reads one reply. Call again only after on_next has run; after the end or Cancel, never. on_next runs on a thread of
  // gRPC or of the queue, or before the return; after Cancel it may not run.
  void Next(OnNext on_next) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::Status failed;
    bool read = false;
    {
      absl::MutexLock lock(&mu_);
      failed = failed_;
      if (released_ && failed.ok()) return;  // cancelled
      if (failed.ok()) {
        on_next_ = std::move(on_next);
        reading_ = true;
        read = begun_;  // otherwise OnTurn reads
      }
    }
    if (!failed.ok()) return on_next(failed);
    if (read) this->StartRead(&reply_);
  }

  void Cancel() ABSL_LOCKS_EXCLUDED(mu_) {
    context_.TryCancel();
    bool release = false;
    OnNext dropped;  // destroyed without the lock
    {
      absl::MutexLock lock(&mu_);
      dropped = std::exchange(on_next_, nullptr);
      if (begun_) {
        release = !reading_ && !std::exchange(released_, true);
      } else {
        released_ = true;
      }
    }
    if (release) this->RemoveHold();
    queue_.Leave(turn_);
  }

  void OnReadInitialMetadataDone(bool) override { place_.reset(); }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    OnNext on_next;
    {
      absl::MutexLock lock(&mu_);
      reading_ = false;
      if (ok) on_next = std::exchange(on_next_, nullptr);
      if (!on_next) released_ = true;  // the end, or cancelled
    }
    if (on_next) return on_next(std::optional<Reply>(std::move(reply_)));
    this->RemoveHold();
  }

  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    const auto self = std::move(self_);
    place_.reset();
    OnNext on_next;
    {
      absl::MutexLock lock(&mu_);
      on_next = std::exchange(on_next_, nullptr);
    }
    if (!on_next) return;
    if (status.ok()) return on_next(std::optional<Reply>());
    on_next(FromGrpcStatus(status));
  }

 private:
  void OnTurn(const Start& start, CallQueue::Place place) ABSL_LOCKS_EXCLUDED(mu_) {
    place_ = std::move(place);
    self_ = this->shared_from_this();
    start(context_, this);
    this->AddHold();  // reads start outside of reactions
    this->StartCall();
    bool read = false, release = false;
    {
      absl::MutexLock lock(&mu_);
      begun_ = true;
      release = released_;  // cancelled before its turn
      read = reading_ && !release;
    }
    if (release) this->RemoveHold();
    if (read) this->StartRead(&reply_);
  }

  void OnNoTurn(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    OnNext on_next;
    {
      absl::MutexLock lock(&mu_);
      if (std::exchange(released_, true)) return;  // cancelled
      failed_ = status;
      on_next = std::exchange(on_next_, nullptr);
    }
    if (on_next) on_next(status);
  }

  const std::shared_ptr<void> lease_;
  CallQueue& queue_;
  int64_t turn_ = 0;
  CallQueue::Place place_;
  grpc::ClientContext context_;
  std::shared_ptr<ReplyReader> self_;  // from its turn until OnDone
  Reply reply_;

  absl::Mutex mu_;
  OnNext on_next_ ABSL_GUARDED_BY(mu_);
  absl::Status failed_ ABSL_GUARDED_BY(mu_);  // it got no turn
  bool begun_ ABSL_GUARDED_BY(mu_) = false;   // the call has
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool released_ ABSL_GUARDED_BY(mu_) = false;  // the hold
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_REPLY_READER_H_

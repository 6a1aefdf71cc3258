// Reads the replies of a streaming call one at a time, when asked: gRPC's flow control then holds back a frontend whose
// reader is slow.
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
#include "server/net/grpc_status.h"

namespace kinora {

template <typename Reply>
class ReplyReader : public grpc::ClientReadReactor<Reply>, public std::enable_shared_from_this<ReplyReader<Reply>> {
 public:
  // nullopt: the stream has ended with OK.
  using OnNext = std::function<void(absl::StatusOr<std::optional<Reply>>)>;

  // lease: kept until this reader is destroyed.
  explicit ReplyReader(std::shared_ptr<void> lease) : lease_(std::move(lease)) {}

  // The context of the call, before Begin.
  grpc::ClientContext& context() { return context_; }
  // Call once, after the stub's method got `this` as its reactor.
  void Begin() {
    self_ = this->shared_from_this();
    this->AddHold();  // reads start outside of reactions
    this->StartCall();
  }

  // Reads one reply. Call again only after on_next has run; after the end or Cancel, never. on_next runs on a thread of
  // gRPC; after Cancel it may not run.
  void Next(OnNext on_next) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (released_) return;  // cancelled
      on_next_ = std::move(on_next);
      reading_ = true;
    }
    this->StartRead(&reply_);
  }

  void Cancel() ABSL_LOCKS_EXCLUDED(mu_) {
    context_.TryCancel();
    bool release = false;
    OnNext dropped;  // destroyed without the lock
    {
      absl::MutexLock lock(&mu_);
      dropped = std::exchange(on_next_, nullptr);
      release = !reading_ && !std::exchange(released_, true);
    }
    if (release) this->RemoveHold();
  }

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
  const std::shared_ptr<void> lease_;
  grpc::ClientContext context_;
  std::shared_ptr<ReplyReader> self_;  // until OnDone
  Reply reply_;

  absl::Mutex mu_;
  OnNext on_next_ ABSL_GUARDED_BY(mu_);
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool released_ ABSL_GUARDED_BY(mu_) = false;  // the hold
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_REPLY_READER_H_

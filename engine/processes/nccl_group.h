// The NCCL communicators of one rank's mesh, which fail together.
//
// They are made without waiting (blocking=0): a call that is under way is asked for until it is done, the deadline
// passes or the group is aborted. Sharing resources (splitShare), they are one to NCCL when one is aborted.
//
// An abort of NCCL's is of one process alone. So a thread of the group watches: it asks every communicator for its
// asynchronous error, and the rendezvous whether another rank has aborted, every kLook; on either, or on Abort, it
// tells the other ranks by the rendezvous and aborts this rank's communicators. The kernels that wait for other ranks
// end then, and the streams that heed interruption() fail with its status.
//
// NCCL destroys a communicator, aborted or not, only after the graphs that hold its calls. Abort does not wait for
// that, the group's end does: graphs must end before it.
#ifndef KINORA_ENGINE_PROCESSES_NCCL_GROUP_H_
#define KINORA_ENGINE_PROCESSES_NCCL_GROUP_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "engine/ops/cuda/call_timer.h"
#include "engine/processes/nccl_abi.h"
#include "engine/processes/rendezvous.h"

namespace kinora {

class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  struct Options {
    std::string name = "mesh";  // of this group's keys, each "nccl/<name>/…": another for every group of the process
    std::string library = nccl::kLibrary;          // as dlopen finds it
    absl::Duration patience = absl::Seconds(300);  // for ranks that have not come
  };
  static constexpr absl::Duration kLook = absl::Milliseconds(20);
  // How long an orderly end waits for the other ranks' before it is an abort.
  static constexpr absl::Duration kFarewell = absl::Seconds(5);

  // This rank's world of `size`, once all have come, on the current device. The rendezvous is thread-safe and outlives
  // it. FailedPrecondition: as nccl::Open. DeadlineExceeded: a rank did not come. Aborted: another gave up, or NCCL
  // did.
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Join(int rank, int size, Rendezvous& rendezvous, Options options);
  ~NcclGroup();

  // Communicators by number; 0 is the world.
  // The part of the world that brings this color, ordered by `key`. All ranks call it, with any colors.
  absl::StatusOr<int> Split(int color, int key);

  // Calls enqueue(functions, communicator), and waits until it is enqueued. Aborted: the group is. Whatever else it
  // answers aborts the group.
  using Enqueueing = absl::FunctionRef<nccl::Result(const nccl::Functions& nccl, nccl::Comm comm)>;
  absl::Status Call(int communicator, const char* what, Enqueueing enqueue);

  // Memory that all ranks reserve alike, known to every communicator, so that copies between devices need no buffers in
  // between; ordinary device memory of NCCL's where the library has no windows. All ranks call it.
  absl::StatusOr<Buffer> AllocateWindow(int64_t bytes, std::string_view what);

  // Makes every collective of the group fail with Aborted, here and, by the rendezvous, on the other ranks. Returns at
  // once. Thread-safe.
  void Abort(const std::string& why);
  const std::shared_ptr<Interruption>& interruption() const { return interruption_; }
  // Of this rank's calls. They run on the thread that enqueues them and waits for the stream.
  CallTimer& timer() { return *timer_; }
  // Whether the library exchanges parts in one call.
  bool has_all_to_all() const { return nccl_.AlltoAll != nullptr; }

 private:
  NcclGroup(int rank, int size, Rendezvous& rendezvous, Options options);
  std::string Key(const std::string& what) const { return "nccl/" + options_.name + "/" + what; }
  absl::Status OpenWorld();
  absl::StatusOr<nccl::UniqueId> AgreeOnId();
  // Until communicator `number` is no more in progress.
  absl::Status Settle(int number, const char* what, absl::Duration patience);
  absl::Status Failed(nccl::Result result, const std::string& what);
  void Watch();
  void LookAtCommunicators();  // under mu_
  void LookAtRanks();
  void AbortCommunicators();
  bool EndInOrder();
  void FreeWindow(void* memory, const std::vector<nccl::Window>& windows);

  nccl::Functions nccl_{};
  const int rank_, size_;
  Rendezvous& rendezvous_;
  const Options options_;
  std::shared_ptr<CallTimer> timer_;
  const std::shared_ptr<Interruption> interruption_ = std::make_shared<Interruption>();

  std::mutex mu_;  // of what follows, and of NCCL's calls but an abort
  std::condition_variable changed_;
  std::deque<nccl::Comm> communicators_;  // to which NCCL writes: they stay where they are; null: none, or no more
  bool ended_ = false;
  std::thread watch_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_NCCL_GROUP_H_

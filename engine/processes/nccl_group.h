// The NCCL communicators of one rank's mesh, which fail together.
//
// They are non-blocking (blocking=0): a call in progress is polled until it is done, the deadline passes or the group
// is aborted. They share resources (splitShare), so NCCL aborts them as one.
//
// An NCCL abort affects only its own process, so each group has a thread that watches. Every kLook it polls all
// communicators for asynchronous errors and the rendezvous for aborts of other ranks. On either, or on Abort, it
// notifies the other ranks by the rendezvous and aborts this rank's communicators. Kernels that wait for other ranks
// then end, and streams that heed interruption() fail with its status.
//
// NCCL destroys a communicator, aborted or not, only after the graphs that hold its calls. Abort does not wait for
// that, but the group's destructor does: destroy graphs first.
#ifndef KINORA_ENGINE_PROCESSES_NCCL_GROUP_H_
#define KINORA_ENGINE_PROCESSES_NCCL_GROUP_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "engine/ops/cuda/call_timer.h"
#include "engine/processes/nccl_abi.h"
#include "engine/processes/rendezvous.h"

namespace kinora {

class NcclGroup {
 public:
  struct Options {
    std::string name = "mesh";  // prefixes this group's keys, "nccl/<name>/…": unique among the process's groups
    std::string library = nccl::kLibrary;          // a name for dlopen
    absl::Duration patience = absl::Seconds(300);  // limit on the wait for other ranks
  };
  static constexpr absl::Duration kLook = absl::Milliseconds(20);
  // How long an orderly end waits for the other ranks before it aborts.
  static constexpr absl::Duration kFarewell = absl::Seconds(5);

  // Returns this rank's world of `size` on the current device, once all ranks have joined. The rendezvous must be
  // thread-safe and outlive the group. Fails as nccl::Open; with DeadlineExceeded if a rank did not join; with Aborted
  // if another rank gave up or NCCL reports a remote error; with Internal for NCCL's other errors.
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Join(int rank, int size, Rendezvous& rendezvous, Options options);
  ~NcclGroup();

  // Communicators have numbers; 0 is the world. Returns the number of the communicator of all ranks that pass this
  // color, ordered by `key`. Called by all ranks, with any colors.
  absl::StatusOr<int> Split(int color, int key);

  // Calls enqueue(functions, communicator) and waits until the call is enqueued. Fails with Aborted if the group is
  // aborted. Any other failure aborts the group.
  using Enqueueing = absl::FunctionRef<nccl::Result(const nccl::Functions& nccl, nccl::Comm comm)>;
  absl::Status Call(int communicator, const char* what, Enqueueing enqueue);

  // Makes every collective of the group fail with Aborted, here and, through the rendezvous, on the other ranks.
  // Returns immediately. Thread-safe.
  void Abort(const std::string& why);
  const std::shared_ptr<Interruption>& interruption() const { return interruption_; }
  // Times this rank's calls, which run on the thread that enqueues them and waits for the stream.
  CallTimer& timer() { return *timer_; }

 private:
  NcclGroup(int rank, int size, Rendezvous& rendezvous, Options options);
  std::string Key(const std::string& what) const { return "nccl/" + options_.name + "/" + what; }
  absl::Status OpenWorld();
  absl::StatusOr<nccl::UniqueId> AgreeOnId();
  // Waits until communicator `number` has no call in progress.
  absl::Status Settle(int number, const char* what, absl::Duration patience);
  absl::Status Failed(nccl::Result result, const std::string& what);
  void Watch();
  void LookAtCommunicators();  // requires mu_
  void LookAtRanks();
  void AbortCommunicators();
  bool EndInOrder();

  nccl::Functions nccl_{};
  const int rank_, size_;
  Rendezvous& rendezvous_;
  const Options options_;
  std::shared_ptr<CallTimer> timer_;
  const std::shared_ptr<Interruption> interruption_ = std::make_shared<Interruption>();

  std::mutex mu_;  // guards the members below and NCCL calls other than aborts
  std::condition_variable changed_;
  std::deque<nccl::Comm> communicators_;  // a deque because NCCL writes to the elements; null: not made yet, or aborted
  bool ended_ = false;
  std::thread watch_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_NCCL_GROUP_H_

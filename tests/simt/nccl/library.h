// Test only: state and functions shared by the simulated NCCL's calls.
#ifndef KINORA_TESTS_SIMT_NCCL_LIBRARY_H_
#define KINORA_TESTS_SIMT_NCCL_LIBRARY_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tests/simt/nccl/communicator.h"

namespace kinora::simt {

struct NcclLibrary {
  static NcclLibrary& Get();

  struct Failing {
    nccl::Result result;
    int after;
  };

  std::mutex mutex;  // guards the members below, and those of communicators that are marked so
  std::map<nccl::Comm, std::shared_ptr<NcclCommunicator>> communicators;
  std::map<std::string, Failing> failing;
  std::string last_error;
  int version = 22809;
};

using NcclLock = std::unique_lock<std::mutex>;

// Stores `why` as the last error and returns `result`. The caller must hold the lock.
nccl::Result NcclRefuse(nccl::Result result, const std::string& why);
// Returns the result injected by kinora_nccl_fail, if any.
nccl::Result NcclInjected(const char* function);
// Finds the communicator of a handle. Fails with an injected result, if the handle is invalid, or if an earlier call on
// the communicator is still in progress.
nccl::Result NcclFind(const char* function, nccl::Comm comm, std::shared_ptr<NcclCommunicator>* found);
nccl::Comm NcclHandle(const std::shared_ptr<NcclCommunicator>& communicator);
uint64_t NcclKey(uint64_t id, const char* what, int64_t number);
// Starts `work`, which is done when it does not return kInProgress. A blocking communicator waits for it; otherwise the
// caller polls with ncclCommGetAsyncError.
nccl::Result NcclBegin(NcclLock& lock, NcclCommunicator& communicator, NcclCommunicator::State state,
                       std::function<nccl::Result(NcclCommunicator&)> work);
nccl::Result NcclPoll(NcclCommunicator& communicator);
// Enqueues a collective, a send or a receive, inside or outside a group.
nccl::Result NcclEnqueue(nccl::Comm comm, const NcclCall& call);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_NCCL_LIBRARY_H_

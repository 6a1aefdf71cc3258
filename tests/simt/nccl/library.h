// Test only: what the calls of the simulated NCCL's interface share.
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

  std::mutex mutex;  // of all below, and of what communicators say is under it
  std::map<nccl::Comm, std::shared_ptr<NcclCommunicator>> communicators;
  std::map<nccl::Window, nccl::Comm> windows;
  std::map<std::string, Failing> failing;
  std::string last_error;
  int version = 22809;
};

using NcclLock = std::unique_lock<std::mutex>;

// Under the lock: remembers why.
nccl::Result NcclRefuse(nccl::Result result, const std::string& why);
// Answers of kinora_nccl_fail.
nccl::Result NcclInjected(const char* function);
// The communicator if it may be called: injected answers, handles that are none, and those that a call is still under
// way of, are refused.
nccl::Result NcclFind(const char* function, nccl::Comm comm, std::shared_ptr<NcclCommunicator>* found);
nccl::Comm NcclHandle(const std::shared_ptr<NcclCommunicator>& communicator);
uint64_t NcclKey(uint64_t id, const char* what, int64_t number);
// `work` is done when it answers other than kInProgress: waited for, or the caller asks ncclCommGetAsyncError.
nccl::Result NcclBegin(NcclLock& lock, NcclCommunicator& communicator, NcclCommunicator::State state,
                       std::function<nccl::Result(NcclCommunicator&)> work);
nccl::Result NcclPoll(NcclCommunicator& communicator);
// A collective or one half of a pair, in a group or alone.
nccl::Result NcclEnqueue(nccl::Comm comm, const NcclCall& call);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_NCCL_LIBRARY_H_

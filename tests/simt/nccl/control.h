// Test only: functions with which tests control the simulated NCCL. Find them with dlsym in the opened library.
#ifndef KINORA_TESTS_SIMT_NCCL_CONTROL_H_
#define KINORA_TESTS_SIMT_NCCL_CONTROL_H_

extern "C" {

// Makes a call of the interface's function `name` ("ncclAllReduce") return `result`, an ncclResult_t, after `after`
// calls that run normally.
void kinora_nccl_fail(const char* name, int result, int after);
// After `after` more kernels, makes the next one hang; ncclCommGetAsyncError returns `result` for its communicator.
void kinora_nccl_break(int result, int after);
// Sets the result of ncclGetVersion [22809].
void kinora_nccl_pretend(int version);
// The number of communicators that have not been destroyed.
int kinora_nccl_alive();
// The number of kernels of this process that are waiting for other ranks.
int kinora_nccl_waiting();
}

#endif  // KINORA_TESTS_SIMT_NCCL_CONTROL_H_

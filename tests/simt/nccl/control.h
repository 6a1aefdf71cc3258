// Test only: what a test sets and asks of the library that stands for NCCL, through dlsym on the library that is open.
#ifndef KINORA_TESTS_SIMT_NCCL_CONTROL_H_
#define KINORA_TESTS_SIMT_NCCL_CONTROL_H_

extern "C" {

// The next call of the interface's function `name` ("ncclAllReduce") answers `result`, an ncclResult_t; the `after`
// calls before it do what they do.
void kinora_nccl_fail(const char* name, int result, int after);
// The kernel that runs `after` others from now hangs, and ncclCommGetAsyncError answers `result` of its communicator.
void kinora_nccl_break(int result, int after);
// What ncclGetVersion answers [22809].
void kinora_nccl_pretend(int version);
// Communicators that are alive, and windows that are registered.
int kinora_nccl_alive();
int kinora_nccl_windows();
// Kernels of this process that wait for other ranks now.
int kinora_nccl_waiting();
}

#endif  // KINORA_TESTS_SIMT_NCCL_CONTROL_H_

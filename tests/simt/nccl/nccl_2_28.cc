// Test only: the function added in NCCL 2.28. A library without this file simulates an older version.
#include "tests/simt/nccl/library.h"

using namespace kinora::nccl;  // NOLINT(google-build-using-namespace)
using namespace kinora::simt;  // NOLINT(google-build-using-namespace)

extern "C" {

Result ncclAlltoAll(const void* send, void* receive, size_t count, DataType type, Comm comm, cudaStream_t stream) {
  return NcclEnqueue(comm, {.kind = NcclCall::Kind::kAllToAll,
                            .send = send,
                            .receive = receive,
                            .count = static_cast<int64_t>(count),
                            .type = type,
                            .stream = stream});
}
}

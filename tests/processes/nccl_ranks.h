// Ranks that are processes with one simulated device each, connected by the simulated NCCL.
#ifndef KINORA_TESTS_PROCESSES_NCCL_RANKS_H_
#define KINORA_TESTS_PROCESSES_NCCL_RANKS_H_

#include "engine/processes/nccl_communicator.h"
#include "tests/parallel/communicator_contract.h"

namespace kinora {

RanksKind NcclRanks(NcclGroup::Options options = {});

// Returns a function of tests/simt/nccl/control.h from the library that this process has loaded. The test fails if it
// does not have it.
void* NcclControl(const char* function, const char* library = nccl::kLibrary);

}  // namespace kinora

#endif  // KINORA_TESTS_PROCESSES_NCCL_RANKS_H_

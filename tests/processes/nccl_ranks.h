// Ranks that are processes on a simulated device each, and NCCL between them.
#ifndef KINORA_TESTS_PROCESSES_NCCL_RANKS_H_
#define KINORA_TESTS_PROCESSES_NCCL_RANKS_H_

#include "engine/processes/nccl_communicator.h"
#include "tests/parallel/communicator_contract.h"

namespace kinora {

RanksKind NcclRanks(NcclGroup::Options options = {});

// A function of tests/simt/nccl/control.h in the library that this process has open; the test fails if it has none.
void* NcclControl(const char* function, const char* library = nccl::kLibrary);

}  // namespace kinora

#endif  // KINORA_TESTS_PROCESSES_NCCL_RANKS_H_

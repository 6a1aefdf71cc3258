#include "tests/processes/nccl_ranks.h"

#include <dlfcn.h>

#include "engine/ops/cuda/cuda_memory.h"
#include "tests/simt/control.h"
#include "tests/testing/forked_ranks.h"

namespace kinora {
namespace {

absl::StatusOr<std::string> BeRank(const MeshShape& shape, int number, Rendezvous& rendezvous,
                                   const NcclGroup::Options& options, const ContractBody& body) {
  simt::Seed(number);
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream, CudaStream::Create());
  std::vector<Buffer> buffers;
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeNcclMesh(shape, number, rendezvous, options));
  const ContractRank rank(*mesh, *stream, [&buffers](DType dtype, int64_t elements) {
    buffers.push_back(AllocateOnDevice(elements * DTypeSize(dtype) + 1, "a tensor of a test").value());
    return buffers.back().View(dtype, {elements});
  });
  absl::StatusOr<std::string> result = body(rank);
  if (!result.ok()) mesh->Abort();
  return result;
}

}  // namespace

RanksKind NcclRanks(NcclGroup::Options options) {
  return {"Nccl", /*processes=*/true, [options](const MeshShape& shape, const ContractBody& body) {
            return RunForked(shape.ranks(), [&](int rank, Rendezvous& rendezvous) {
              return BeRank(shape, rank, rendezvous, options, body);
            });
          }};
}

void* NcclControl(const char* function, const char* library) {
  void* const open = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  void* const found = open == nullptr ? nullptr : dlsym(open, function);
  EXPECT_NE(found, nullptr) << function;
  return found;
}

}  // namespace kinora

#include "engine/ops/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

// Errors after which every call of this process fails until it ends.
bool Lost(cudaError_t error) {
  switch (error) {
    case cudaErrorLaunchFailure:
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorContextIsDestroyed:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(std::string(what), ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  if (Lost(error)) return absl::AbortedError(absl::StrCat("the CUDA device is lost: ", message));
  return absl::InternalError(message);
}

}  // namespace kinora

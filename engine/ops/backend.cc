#include "engine/ops/backend.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/backend_kinds.h"

namespace kinora {
namespace {

template <typename T>
absl::StatusOr<T> Choose(std::string_view device, const BackendOptions& options,
                         absl::StatusOr<T> (*cpu)(const BackendOptions&),
                         absl::StatusOr<T> (*cuda)(const BackendOptions&)) {
  if (device == "cpu") return cpu(options);
  if (device == "cuda") return cuda(options);
  if (device.empty()) return CudaIsDefault() ? cuda(options) : cpu(options);
  return absl::InvalidArgumentError(absl::StrCat("device: ", std::string(device), ": cpu or cuda is needed"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view device, const BackendOptions& options) {
  return Choose(device, options, OpenCpuBackend, OpenCudaBackend);
}

absl::StatusOr<BackendTraits> TraitsOf(std::string_view device, const BackendOptions& options) {
  return Choose(device, options, CpuTraits, CudaTraits);
}

absl::StatusOr<std::string> DeviceName(std::string_view device, const BackendOptions& options) {
  return Choose(device, options, CpuName, CudaName);
}

}  // namespace kinora

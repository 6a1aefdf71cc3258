#include "engine/ops/cpu_backend.h"

#include "absl/strings/str_cat.h"
#include "engine/base/cpu_path.h"
#include "engine/base/status_macros.h"
#include "engine/ops/backend_kinds.h"
#include "engine/ops/cpu_weight.h"
#include "engine/ops/cpu_workspace.h"

namespace kinora {
absl::StatusOr<BackendTraits> CpuTraits(const BackendOptions& options) {
  return BackendTraits{.device = "cpu",
                       .weights = &CpuWeightLayout(),
                       .unified_memory = true,
                       .workspace_bytes = options.threads * kWorkspaceBytes};
}

absl::StatusOr<std::string> CpuName(const BackendOptions& options) {
  return absl::StrCat("cpu (", CpuPathName(ThisCpuPath()), ", ", options.threads,
                      options.threads == 1 ? " thread)" : " threads)");
}

absl::StatusOr<std::unique_ptr<Backend>> OpenCpuBackend(const BackendOptions& options) {
  return CpuBackend::Open(options);
}

absl::StatusOr<std::unique_ptr<CpuBackend>> CpuBackend::Open(const BackendOptions& options) {
  KINORA_ASSIGN_OR_RETURN(BackendTraits traits, CpuTraits(options));
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CpuOps> ops, CpuOps::Create(options.threads));
  return std::unique_ptr<CpuBackend>(new CpuBackend(std::move(traits), std::move(ops)));
}

absl::StatusOr<Buffer> CpuBackend::Allocate(int64_t bytes, std::string_view what) {
  return Buffer::Allocate(bytes, what);
}

absl::StatusOr<Buffer> CpuBackend::AllocateHost(int64_t bytes, std::string_view what) {
  return Buffer::Allocate(bytes, what);
}

absl::StatusOr<Buffer> CpuBackend::Upload(Buffer host, std::string_view) { return host; }

void CpuBackend::RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task) { ops_->RunOnHost(tasks, task); }

}  // namespace kinora

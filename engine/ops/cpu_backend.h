// The CPU as a backend. Internal to this folder and to tests, which build other backends on it.
#ifndef KINORA_ENGINE_OPS_CPU_BACKEND_H_
#define KINORA_ENGINE_OPS_CPU_BACKEND_H_

#include "engine/ops/backend.h"
#include "engine/ops/cpu_ops.h"

namespace kinora {

class CpuBackend : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<CpuBackend>> Open(const BackendOptions& options);

  const BackendTraits& traits() const override { return traits_; }
  MemoryLimit usable_memory() const override { return UsableMemory(); }
  CpuOps& ops() override { return *ops_; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what) override;
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, std::string_view what) override;
  absl::StatusOr<Buffer> Upload(Buffer host, std::string_view what) override;
  void RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task) override;

 private:
  CpuBackend(BackendTraits traits, std::unique_ptr<CpuOps> ops) : traits_(std::move(traits)), ops_(std::move(ops)) {}

  const BackendTraits traits_;
  const std::unique_ptr<CpuOps> ops_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_BACKEND_H_

// A backend without memory: with DryOps and dry arenas it measures what a run on another backend would need.
#ifndef KINORA_ENGINE_OPS_DRY_BACKEND_H_
#define KINORA_ENGINE_OPS_DRY_BACKEND_H_

#include "engine/ops/backend.h"
#include "engine/ops/dry_ops.h"

namespace kinora {

class DryBackend : public Backend {
 public:
  // Counts what a backend with these traits would need; by default the CPU.
  explicit DryBackend(BackendTraits traits = TraitsOf("cpu", {}).value())
      : traits_(std::move(traits)), ops_(*traits_.weights, traits_.unified_memory) {}

  const BackendTraits& traits() const override { return traits_; }
  MemoryLimit usable_memory() const override { return UsableMemory(); }
  DryOps& ops() override { return ops_; }
  DryOps* branch() override { return traits_.branches ? &ops_ : nullptr; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view) override { return Buffer::Dry(bytes); }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, std::string_view) override { return Buffer::Dry(bytes); }
  absl::StatusOr<Buffer> Upload(Buffer host, std::string_view) override { return Buffer::Dry(host.bytes()); }
  void RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task) override {
    for (int64_t i = 0; i < tasks; ++i) task(i);
  }

 private:
  const BackendTraits traits_;
  DryOps ops_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_DRY_BACKEND_H_

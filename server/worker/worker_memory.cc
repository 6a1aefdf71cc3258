#include "server/worker/worker_memory.h"

#include <memory>

#include "engine/base/logging.h"
#include "engine/base/memory.h"
#include "engine/base/status_macros.h"
#include "server/decode/input_reader.h"

namespace kinora {

absl::StatusOr<WorkerMemory> PlanWorkerMemory(const ModelRanks& ranks, double memory_share, PipelineOptions& options) {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                          OpenBackend(options.device, {.threads = 1, .cuda = options.cuda}));
  MemoryLimit memory = backend->usable_memory();
  KINORA_ASSIGN_OR_RETURN(memory.bytes, ranks.Least("memory", memory.bytes));
  memory.bytes = static_cast<int64_t>(memory_share * static_cast<double>(memory.bytes)) /
                 RanksPerMemory(backend->traits(), ranks.mesh());
  const bool unified = backend->traits().unified_memory;
  backend.reset();
  KINORA_ASSIGN_OR_RETURN(const RunPlan usual, Pipeline::PlanMemory(memory, ranks.mesh(), options));
  const WorkerMemory planned{
      .arena_bytes = options.arena_bytes,
      .host_arena_bytes = options.host_arena_bytes,
      .input_bytes =
          unified ? InputBytes(memory.bytes, usual.device_bytes() - usual.arena_bytes + options.arena_bytes)
                  : InputBytes(static_cast<int64_t>(memory_share * static_cast<double>(UsableMemory().bytes)), 0)};
  Log(Severity::kInfo, "memory_planned",
      {{"arena_bytes", planned.arena_bytes},
       {"host_arena_bytes", planned.host_arena_bytes},
       {"input_bytes", planned.input_bytes},
       {"text_encoder", usual.TextEncoderResidence()}});
  return planned;
}

}  // namespace kinora

#include "server/worker/worker_memory.h"

#include <algorithm>
#include <memory>

#include "engine/base/logging.h"
#include "engine/base/memory.h"
#include "engine/base/status_macros.h"
#include "server/decode/input_reader.h"

namespace kinora {

int64_t CleanHostBytes(int64_t host, int ranks, int64_t taken) {
  return std::max<int64_t>(0, host / ranks - taken) / 2;
}

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
  const auto host = static_cast<int64_t>(memory_share * static_cast<double>(UsableMemory().bytes));
  WorkerMemory planned{.arena_bytes = options.arena_bytes, .host_arena_bytes = options.host_arena_bytes};
  if (unified) {
    planned.input_bytes = InputBytes(memory.bytes, usual.device_bytes() - usual.arena_bytes + options.arena_bytes);
  } else {
    planned.input_bytes = InputBytes(host, 0);
    const int64_t loras = options.lora_cache != nullptr ? options.lora_cache->max_bytes() : 0;
    const int64_t taken = planned.host_arena_bytes + usual.evicted_bytes + loras;
    options.clean_weights.host_bytes = CleanHostBytes(host - planned.input_bytes, ranks.mesh().shape().ranks(), taken);
  }
  Log(Severity::kInfo, "memory_planned",
      {{"arena_bytes", planned.arena_bytes},
       {"host_arena_bytes", planned.host_arena_bytes},
       {"input_bytes", planned.input_bytes},
       {"clean_device_bytes", options.clean_weights.device_bytes},
       {"clean_host_bytes", options.clean_weights.host_bytes},
       {"text_encoder", usual.TextEncoderResidence()}});
  return planned;
}

}  // namespace kinora

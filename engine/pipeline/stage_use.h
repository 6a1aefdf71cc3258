#ifndef KINORA_ENGINE_PIPELINE_STAGE_USE_H_
#define KINORA_ENGINE_PIPELINE_STAGE_USE_H_

#include "engine/pipeline/graph_misses.h"
#include "engine/request/stage.h"

namespace kinora {

// Precedes a stage that needs other LoRAs in the weights. Not part of a plan, because it depends on what ran before.
inline constexpr Stage kPutOnLoras{StageKind::kPutOnLoras};

// Time that a stage took on this rank.
struct StageUse {
  Stage stage;                 // StagePlan::stage(), or kPutOnLoras
  double seconds = 0;          // by the host's clock
  double wait_seconds = 0;     // part of `seconds` spent waiting for slower ranks, if communicators measure it
  double idle_seconds = 0;     // part of `seconds` without work on the device: Stream::idle_seconds plus wait_seconds
  GraphMisses graph_misses{};  // steps that ran without a graph
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STAGE_USE_H_

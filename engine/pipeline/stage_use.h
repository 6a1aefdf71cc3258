#ifndef KINORA_ENGINE_PIPELINE_STAGE_USE_H_
#define KINORA_ENGINE_PIPELINE_STAGE_USE_H_

#include <string>

namespace kinora {

// What a stage took on this rank.
struct StageUse {
  std::string stage;        // StagePlan::label
  double seconds = 0;       // by the host's clock
  double wait_seconds = 0;  // of these, in collectives for slower ranks, where communicators measure it
  double idle_seconds = 0;  // of these, without work for the device: Stream::idle_seconds, and the waits
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STAGE_USE_H_

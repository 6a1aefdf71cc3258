#ifndef KINORA_ENGINE_PIPELINE_STAGE_USE_H_
#define KINORA_ENGINE_PIPELINE_STAGE_USE_H_

#include <string>
#include <string_view>

namespace kinora {

// The name of what happens before a stage whose weights are to bear other LoRAs. No stage of a plan: whether it happens
// depends on what ran before.
inline constexpr std::string_view kPutOnLoras = "put_on_loras";

// What a stage took on this rank.
struct StageUse {
  std::string stage;        // StagePlan::label, or kPutOnLoras
  double seconds = 0;       // by the host's clock
  double wait_seconds = 0;  // of these, in collectives for slower ranks, where communicators measure it
  double idle_seconds = 0;  // of these, without work for the device: Stream::idle_seconds, and the waits
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STAGE_USE_H_

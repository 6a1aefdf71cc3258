// Converts stages to and from the messages between a worker and the frontend.
#ifndef KINORA_SERVER_COMMON_STAGE_CONVERSION_H_
#define KINORA_SERVER_COMMON_STAGE_CONVERSION_H_

#include <cstdint>

#include "engine/request/stage.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

// mark: a StageMark or a StepMark.
template <typename Mark>
void SetStage(Stage stage, Mark& mark) {
  mark.set_stage(static_cast<v1::StageKind>(stage.kind));
  mark.set_part(stage.part);
}

// The returned stage has no name if the mark names a stage that does not exist.
template <typename Mark>
Stage StageOf(const Mark& mark) {
  return {.kind = static_cast<StageKind>(mark.stage()), .part = mark.part()};
}

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_STAGE_CONVERSION_H_

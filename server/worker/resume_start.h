// Where a run begins that names the resume point of an earlier attempt.
#ifndef KINORA_SERVER_WORKER_RESUME_START_H_
#define KINORA_SERVER_WORKER_RESUME_START_H_

#include <memory>
#include <string>

#include "engine/pipeline/resume_point.h"
#include "engine/request/stage.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/model.h"
#include "server/worker/run_inputs.h"

namespace kinora {

struct ResumeStart {
  std::shared_ptr<const ResumePoint> point{};  // null: the run begins at its beginning
  std::string why_not{};                       // for clients; empty: it resumes, or names no point
};

// Reads and checks the point that `run` names, if any. Whatever is wrong with it, the run begins at its beginning: an
// error of go_on, too, which ends the run later. Called on rank 0, whose decision the other ranks learn in Generate.
ResumeStart FindResumeStart(const Model& model, const RunInputs& inputs, const v1::Run& run,
                            const PreparedRun& prepared, const Model::GoOn& go_on);

// The stage of the plan in which the run continues. `prepared.from` must not be null.
Stage ResumedStage(const PreparedRun& prepared);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RESUME_START_H_

// When a run may continue where an earlier one was, and when a run that is about to be stopped stores its state. Pure
// functions.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_RESUME_RULES_H_
#define KINORA_SERVER_FRONTEND_GROUPS_RESUME_RULES_H_

#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

// What became of the resume point of an earlier attempt that a run was offered.
enum class ResumeOffer {
  kNone,      // there was none, or its file was gone
  kMade,      // the worker has not said yet what it does with it
  kTaken,     // the run continues there
  kDeclined,  // the run began anew: something that shapes the clip has changed
};

// The offer after the worker has said what it does with the request.
ResumeOffer AfterResolved(ResumeOffer offer, const v1::Resolved& resolved);

// Whether the loss of the run's group drops the point that the run was offered, unless the run has stored one of its
// own: the point may have killed the worker, and must not do so for ever.
bool LossDropsPoint(ResumeOffer offer);

// Whether a run in this stage can store its state when it is stopped, or has little to store: it is denoising or has
// not begun to. A later stage is nearly done.
bool IsBeforeDecoding(v1::StageKind stage);

// The time before the end of a drain at which a run is told to store its state and stop. step: its expected time; zero
// if unknown.
absl::Duration TimeToStore(absl::Duration step, absl::Duration grace);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_RESUME_RULES_H_

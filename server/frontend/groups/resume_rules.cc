#include "server/frontend/groups/resume_rules.h"

#include <algorithm>

namespace kinora {

ResumeOffer AfterResolved(ResumeOffer offer, const v1::Resolved& resolved) {
  if (offer != ResumeOffer::kMade) return offer;
  return resolved.resumed_from_stage().empty() ? ResumeOffer::kDeclined : ResumeOffer::kTaken;
}

bool LossDropsPoint(ResumeOffer offer) { return offer == ResumeOffer::kMade || offer == ResumeOffer::kTaken; }

bool IsBeforeDecoding(v1::StageKind stage) { return stage < v1::STAGE_DECODE_VIDEO; }

// The run stops after the step that it computes; writing or sending the state takes seconds.
absl::Duration TimeToStore(absl::Duration step, absl::Duration grace) {
  return std::min(2 * step + absl::Seconds(5), grace / 2);
}

}  // namespace kinora

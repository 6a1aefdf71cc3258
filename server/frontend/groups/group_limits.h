// The limits of a worker group, and why it can be lost.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_GROUP_LIMITS_H_
#define KINORA_SERVER_FRONTEND_GROUPS_GROUP_LIMITS_H_

#include "absl/time/time.h"

namespace kinora {

struct GroupLimits {
  absl::Duration heartbeat_interval = absl::Seconds(2);
  absl::Duration heartbeat_timeout = absl::Seconds(15);  // longest silence of any rank
  // A group that loads or runs is stalled if it makes no progress (WorkerMessage marks, Heartbeat.units_done) for
  // max(floor, 10 × the expected time of a step).
  absl::Duration stall_floor = absl::Seconds(60);
  absl::Duration cancel_floor = absl::Seconds(60);  // likewise, from a cancel to the end of the run
  absl::Duration join_timeout = absl::Minutes(5);   // from the first rank to the last
};

// Labels of kinora_group_restarts_total.
enum class LossReason {
  kDisconnected,
  kSilent,
  kStalled,
  kCancelIgnored,
  kProcessEnded,
  kAdmin,
  kRankFailed,
  kIncomplete,     // ranks did not join in time
  kLeft,           // a rank reported that it was told to leave
  kModelConflict,  // another group has other files under its model id, or its ranks disagree
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_GROUP_LIMITS_H_

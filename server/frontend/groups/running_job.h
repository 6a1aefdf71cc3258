// What the dispatcher knows of a job between its claim and what the store is told of its end.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_RUNNING_JOB_H_
#define KINORA_SERVER_FRONTEND_GROUPS_RUNNING_JOB_H_

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/artifact_store.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

enum class StopReason { kNone, kCancel, kDeadline, kRelease, kLeaseLost };  // why a run is to end before it is done

struct Claim {  // asked of the store; holds the group meanwhile
  QueuedJob job;
  std::string incarnation;
  StopReason stop = StopReason::kNone;  // asked for before there was a run
};

struct RunningJob {
  Attempt attempt;
  QueuedJob job;
  v1::Video video;
  std::string group;  // empty: its run has ended and the store is being told
  StopReason stop = StopReason::kNone;
  absl::Time cancel_time;
  v1::Progress progress;
  int appends = 0;                               // asked of the store and not yet answered
  bool uploads = false;                          // its artifacts come over the stream
  std::map<std::string, StoredFile> uploaded{};  // those that are whole, by name
  bool step_held = false;                // until they are: a step must not be seen before the stage that it belongs to
  std::optional<v1::Preview> preview{};  // the latest that is held as a step is
};

// Run.artifact_key
inline std::string ArtifactKey(const Attempt& attempt) { return absl::StrCat(attempt.id, "/", attempt.number); }

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_RUNNING_JOB_H_

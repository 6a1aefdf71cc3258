// The dispatcher's record of a job, from its claim until its outcome is stored.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_RUNNING_JOB_H_
#define KINORA_SERVER_FRONTEND_GROUPS_RUNNING_JOB_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/artifact_store.h"
#include "server/frontend/groups/lora_choice.h"
#include "server/frontend/groups/rank_link.h"
#include "server/frontend/groups/resume_rules.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/work_queue.h"

namespace kinora {

// Why a run is stopped early. kPreempt, kRelease: the job continues later.
enum class StopReason { kNone, kCancel, kDeadline, kRelease, kPreempt, kLeaseLost };

constexpr int kMostAppends = 64;  // a run has some ten stages

struct PendingClaim {  // the queue looks for a job
  std::shared_ptr<const GroupsNow> groups;
  absl::Time asked_time;        // as time of the loop
  bool schedule_again = false;  // once it has answered
  std::set<JobId> cancelled{};  // since then; may include the claimed job
};

struct RunningJob {
  Attempt attempt;
  QueuedJob job;
  v1::Video video;
  std::string group;  // empty: its run has ended and the outcome is being stored
  StopReason stop = StopReason::kNone;
  absl::Time cancel_time;
  v1::Progress progress;
  int appends = 0;                                // pending in the store
  std::vector<std::shared_ptr<RankLink>> held{};  // to be read on once appends <= kMostAppends
  bool uploads = false;                           // its artifacts arrive over the Join stream
  std::map<std::string, StoredFile> uploaded{};   // complete artifacts, by name
  bool step_held = false;                         // until appends is 0: a step must not be seen before its stage
  std::optional<v1::Preview> preview{};           // the latest, held like a step
  v1::StageKind stage = v1::STAGE_UNSPECIFIED;
  std::optional<v1::ResumeMark> resume{};  // stored, by this attempt or an earlier one
  ResumeOffer offer = ResumeOffer::kNone;
  std::string offered{};                              // the key of the file that the run was offered
  absl::Time saved_time{};                            // when the run began or last stored its state, as attended time
  int points_in_check = 0;                            // resume points whose files are being looked at
  int points_open = 0;                                // these, and those that are being recorded
  std::optional<Release> release{};                   // to be stored after these points
  absl::Time trusted_until = absl::InfiniteFuture();  // as time of the loop; see Dispatcher::Impl::Sharing
};

// What a frontend that shares its store has seen there.
struct StoreView {
  bool reading = false, read_again = false;
  bool will_read = false;                       // soon, for work
  absl::Time read_time = absl::InfinitePast();  // when the last read began, as time of the loop
  std::map<JobId, absl::Time> waiting{};        // the queued jobs, and since when they have been seen there
  std::set<JobId> passed_over{};  // while it is being looked at: those that no frontend has taken for long enough
};

constexpr char kResumeInput[] = "resume";  // the name of the resume point's file in Run.input_paths

// Run.artifact_key
inline std::string ArtifactKey(const Attempt& attempt) { return absl::StrCat(attempt.id, "/", attempt.number); }

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_RUNNING_JOB_H_

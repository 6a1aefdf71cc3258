// Rows of the table `jobs`: the SQL and the readers that SqliteJobTables and its listing share.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_ROWS_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_ROWS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/frontend/jobs/job_store.h"

// SQL for the checksum of a row of jobs with these two values. Keep the column order of job_schema.cc.
#define KINORA_JOB_CHECKSUM(hidden, request_id)                                                                   \
  "record_checksum(id, state, " hidden ", expire_micros, " request_id                                             \
  ", fingerprint, video, scheduling, detach, owner, lease_micros, queued_micros, cancel_requested, lost_groups, " \
  "last_sequence)"
#define KINORA_JOB_IS_SOUND "(checksum = " KINORA_JOB_CHECKSUM("hidden", "request_id") ")"

namespace kinora {

// DataLoss. Escapes the ID, because it may be damaged, too.
absl::Status Damaged(const JobId& id);

// The column `video`: the Video and, in a field that Video does not have, the job's resume point. Versions that do not
// know resume points keep the field as it is.
std::string VideoColumn(const v1::Video& video, const std::optional<v1::ResumeMark>& resume);

struct VideoRow {
  v1::Video video;
  std::optional<v1::ResumeMark> resume;
};
// bytes: a VideoColumn. sound: KINORA_JOB_IS_SOUND. Fails with Damaged.
absl::StatusOr<VideoRow> ReadVideo(const JobId& id, const std::string& bytes, bool sound);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_ROWS_H_

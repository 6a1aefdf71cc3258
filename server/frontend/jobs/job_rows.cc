#include "server/frontend/jobs/job_rows.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace kinora {

absl::Status Damaged(const JobId& id) {
  return absl::DataLossError(
      absl::StrCat("jobs.db: the record of job \"", absl::CHexEscape(id), "\" is damaged; delete the job"));
}

absl::StatusOr<v1::Video> ReadVideo(const JobId& id, const std::string& bytes, bool sound) {
  v1::Video video;
  if (!sound || !video.ParseFromString(bytes) || video.id() != id) return Damaged(id);
  return video;
}

}  // namespace kinora

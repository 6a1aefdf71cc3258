#include "server/frontend/groups/resume_files.h"

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

absl::Status CheckFile(ArtifactStore& store, const v1::ResumeMark& mark) {
  KINORA_ASSIGN_OR_RETURN(const int64_t bytes, store.Size(ResumeKey(mark)));
  if (bytes == mark.point().bytes()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(ResumeKey(mark), ": has ", bytes, " bytes instead of ", mark.point().bytes()));
}

}  // namespace

std::string ResumeKey(const v1::ResumeMark& mark) {
  return absl::StrCat(mark.video_id(), "/", mark.attempt(), "/", mark.point().id());
}

void ResumeFiles::Check(const v1::ResumeMark& mark, Finished done) {
  loop_->Post([this, mark, done = std::move(done)]() mutable { done(CheckFile(store_, mark)); });
}

void ResumeFiles::Delete(const v1::ResumeMark& mark) {
  loop_->Post([this, key = ResumeKey(mark)] {
    const absl::Status status = store_.Delete(key);
    if (status.ok()) return;
    Log(Severity::kWarning, "resume_point_not_deleted", {{"key", key}, {"why", std::string(status.message())}});
  });
}

}  // namespace kinora

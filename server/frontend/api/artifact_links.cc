#include "server/frontend/api/artifact_links.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/jobs/job_files.h"

namespace kinora {
namespace {

constexpr int64_t kMostSeconds = 7 * 24 * 3600;  // of a signature of S3

}  // namespace

absl::Status CheckLinkSeconds(int64_t seconds) {
  if (seconds >= 0 && seconds <= kMostSeconds) return absl::OkStatus();
  return InvalidField("link_seconds", absl::StrCat(seconds, " must be 0 to ", kMostSeconds,
                                                   "; nearest: ", seconds < 0 ? 0 : kMostSeconds));
}

absl::Status AddLinks(ArtifactStore& artifacts, int64_t seconds, v1::Video& video) {
  for (v1::Artifact& artifact : *video.mutable_artifacts()) {
    absl::StatusOr<ArtifactLink> link = artifacts.Link(
        ArtifactKey(video, artifact),
        {.lifetime = absl::Seconds(seconds), .media_type = artifact.media_type(), .file_name = artifact.file_name()});
    if (absl::IsFailedPrecondition(link.status())) {
      return WithErrorInfo(
          absl::FailedPreconditionError(absl::StrCat("link_seconds: ", std::string(link.status().message()))),
          "NO_BUCKET");
    }
    KINORA_RETURN_IF_ERROR(link.status());
    artifact.set_url(std::move(link->url));
    *artifact.mutable_url_expire_time() = ToProto(link->expiry);
  }
  return absl::OkStatus();
}

}  // namespace kinora

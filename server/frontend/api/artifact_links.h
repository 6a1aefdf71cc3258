// Links to the artifacts of a job that lead past this server.
#ifndef KINORA_SERVER_FRONTEND_API_ARTIFACT_LINKS_H_
#define KINORA_SERVER_FRONTEND_API_ARTIFACT_LINKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/artifact_store.h"

namespace kinora {

// GetVideoRequest.link_seconds: 0 or 1 s to 7 days.
absl::Status CheckLinkSeconds(int64_t seconds);

// Sets url and url_expire_time of the video's artifacts. May block. Fails with FailedPrecondition, naming link_seconds,
// if the store has no links; otherwise as ArtifactStore.
absl::Status AddLinks(ArtifactStore& artifacts, int64_t seconds, v1::Video& video);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_ARTIFACT_LINKS_H_

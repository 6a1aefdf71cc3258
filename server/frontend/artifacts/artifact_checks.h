// The frontend's questions about its artifacts: whether all belong to a job (a lost or damaged job store leaves some
// without one), and whether there is room for more.
#ifndef KINORA_SERVER_FRONTEND_ARTIFACTS_ARTIFACT_CHECKS_H_
#define KINORA_SERVER_FRONTEND_ARTIFACTS_ARTIFACT_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/common/artifact_store.h"
#include "server/common/metrics.h"
#include "server/frontend/artifacts/artifact_home.h"
#include "server/frontend/jobs/job_store.h"
#include "server/net/executor.h"

namespace kinora {

// Counts the first parts of keys in `artifacts` that belong to no job in `store`. Logs
// `job_store_created` or `job_store_opened` with the count, as a warning if it is not 0, and sets the metric. Removes
// nothing. Blocks, unless the artifacts are remote: then it looks on `background`, and logs an error.
absl::Status LookForArtifactsWithoutJob(JobStore& store, bool store_is_new, ArtifactHome& home, Executor& background,
                                        FrontendMetrics& metrics);

// Fails with ResourceExhausted (DISK_FULL), naming min_free_bytes, if fewer than `bytes` bytes are free for artifacts.
absl::Status CheckRoomForArtifacts(ArtifactStore& artifacts, int64_t bytes);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_ARTIFACTS_ARTIFACT_CHECKS_H_

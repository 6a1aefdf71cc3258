// Inspects the artifact folders beside a job store at the start of the frontend. A lost or damaged store leaves folders
// without a job.
#ifndef KINORA_SERVER_FRONTEND_ARTIFACT_FOLDERS_H_
#define KINORA_SERVER_FRONTEND_ARTIFACT_FOLDERS_H_

#include <string>

#include "absl/status/status.h"
#include "server/common/metrics.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

// Counts the folders in `artifacts`, the root of a DirectoryArtifactStore, that belong to no job in `store`. Logs
// `job_store_created` or `job_store_opened` with the count, as a warning if it is not 0, and sets the metric. Removes
// nothing. Blocks.
absl::Status LookForArtifactsWithoutJob(JobStore& store, bool store_is_new, const std::string& artifacts,
                                        FrontendMetrics& metrics);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_ARTIFACT_FOLDERS_H_

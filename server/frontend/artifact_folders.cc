#include "server/frontend/artifact_folders.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/request/input_refs.h"

namespace kinora {

absl::Status LookForArtifactsWithoutJob(JobStore& store, bool store_is_new, const std::string& artifacts,
                                        FrontendMetrics& metrics) {
  std::vector<JobId> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(artifacts, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.front() != '.' && name != kInputsFolder) folders.push_back(std::move(name));
  }
  absl::StatusOr<std::vector<JobId>> unknown;
  absl::Notification answered;
  store.Unknown(std::move(folders), [&](absl::StatusOr<std::vector<JobId>> ids) {
    unknown = std::move(ids);
    answered.Notify();
  });
  answered.WaitForNotification();
  KINORA_RETURN_IF_ERROR(unknown.status());
  metrics.artifacts_without_job.Set(static_cast<double>(unknown->size()));
  Log(unknown->empty() ? Severity::kInfo : Severity::kWarning, store_is_new ? "job_store_created" : "job_store_opened",
      {{"artifacts_without_job", static_cast<int64_t>(unknown->size())},
       {"example", unknown->empty() ? "" : unknown->front()}});
  return absl::OkStatus();
}

}  // namespace kinora

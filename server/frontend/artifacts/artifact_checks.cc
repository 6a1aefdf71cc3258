#include "server/frontend/artifacts/artifact_checks.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/request/input_refs.h"

namespace kinora {
namespace {

absl::Status Look(JobStore& store, bool store_is_new, ArtifactStore& artifacts, FrontendMetrics& metrics) {
  KINORA_ASSIGN_OR_RETURN(std::vector<JobId> ids, artifacts.FirstParts());
  std::erase(ids, kInputsFolder);
  absl::StatusOr<std::vector<JobId>> unknown;
  absl::Notification answered;
  store.Unknown(std::move(ids), [&](absl::StatusOr<std::vector<JobId>> ids) {
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

}  // namespace

absl::Status LookForArtifactsWithoutJob(JobStore& store, bool store_is_new, ArtifactHome& home, Executor& background,
                                        FrontendMetrics& metrics) {
  if (!home.is_remote()) return Look(store, store_is_new, home.artifacts(), metrics);
  background.Post([&store, store_is_new, &home, &metrics] {
    const absl::Status status = Look(store, store_is_new, home.artifacts(), metrics);
    if (!status.ok()) Log(Severity::kWarning, "artifacts_not_compared", {{"why", std::string(status.message())}});
  });
  return absl::OkStatus();
}

absl::Status CheckRoomForArtifacts(ArtifactStore& artifacts, int64_t bytes) {
  absl::Status room = artifacts.CheckRoom(bytes);
  if (!absl::IsResourceExhausted(room)) return room;
  const absl::Status full(room.code(), absl::StrCat("min_free_bytes: ", std::string(room.message())));
  return WithErrorInfo(WithRetryInfo(full, absl::Minutes(1)), "DISK_FULL");
}

}  // namespace kinora

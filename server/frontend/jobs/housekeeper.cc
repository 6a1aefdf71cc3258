#include "server/frontend/jobs/housekeeper.h"

#include <utility>

#include "engine/base/logging.h"
#include "server/frontend/jobs/job_record.h"

namespace kinora {

Housekeeper::Housekeeper(JobStore& store, ArtifactStore& artifacts, EventHub& hub, Clock& clock,
                         std::function<void(const JobId&)> cancel, const HousekeeperOptions& options)
    : store_(store), artifacts_(artifacts), hub_(hub), cancel_(std::move(cancel)), options_(options), loop_(clock) {
  loop_.Post([this] { Sweep(); });  // at once, for jobs left by a crash
}

void Housekeeper::Remove(const JobId& id, Finished done) {
  loop_.Post([this, id, done = std::move(done)]() mutable {
    absl::Status status = artifacts_.Delete(id);
    if (!status.ok()) {
      Log(Severity::kError, "artifacts_not_deleted", {{"job", id}, {"why", std::string(status.message())}});
      return done(std::move(status));
    }
    store_.Purge(id, std::move(done));
  });
}

void Housekeeper::RemoveAndLog(const JobId& id) {
  Remove(id, [id](const absl::Status& status) {
    if (status.ok()) Log(Severity::kInfo, "job_removed", {{"job", id}});
  });
}

void Housekeeper::JobEnded(const v1::Video& video) {
  if (DeletedAtEnd(video)) RemoveAndLog(video.id());
}

void Housekeeper::ClientLeft(const JobId& id) {
  loop_.PostAt(loop_.Now() + options_.disconnect_grace, [this, id] {
    if (hub_.subscriptions(id) == 0) cancel_(id);
  });
}

void Housekeeper::Sweep() {
  store_.SweepExpired(loop_.Now(), [this](absl::StatusOr<std::vector<JobId>> ids) {
    if (!ids.ok()) {
      Log(Severity::kError, "sweep_failed", {{"why", std::string(ids.status().message())}});
      return;
    }
    for (const JobId& id : *ids) RemoveAndLog(id);
  });
  loop_.PostAt(loop_.Now() + options_.sweep_interval, [this] { Sweep(); });
}

}  // namespace kinora

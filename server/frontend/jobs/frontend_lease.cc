#include "server/frontend/jobs/frontend_lease.h"

#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/base/logging.h"
#include "server/net/event_loop.h"

namespace kinora {

void EndOtherLeases(FrontendRecords& records, const FrontendId& id) {
  absl::Notification answered;
  records.EndOtherLeases(id, [&](const absl::Status& ended) {
    if (!ended.ok()) Log(Severity::kWarning, "leases_not_ended", {{"why", std::string(ended.message())}});
    answered.Notify();
  });
  answered.WaitForNotification();
}

FrontendLease::FrontendLease(FrontendRecords& records, JobStore& store, Clock& steady, FrontendLeaseOptions options,
                             std::unique_ptr<Executor> loop)
    : records_(records),
      store_(store),
      options_(std::move(options)),
      failures_(absl::Minutes(1), steady),
      loop_(loop != nullptr ? std::move(loop) : std::make_unique<EventLoop>(steady)) {
  loop_->Post([this] {
    trusted_ = loop_->Now() + options_.grace;
    Renew();
  });
}

void FrontendLease::LogFailure(const absl::Status& status) {
  const auto not_logged = failures_.Admit();
  if (!not_logged) return;
  Log(Severity::kWarning, "lease_not_renewed", {{"why", std::string(status.message())}, {"times", 1 + *not_logged}});
}

// After a failure the next renewal follows as usual.
void FrontendLease::Renew() {
  records_.PutFrontend(options_.frontend, options_.lease, [this](const absl::Status& renewed) {
    if (!renewed.ok()) {
      LogFailure(renewed);
      return loop_->Post([this] { trusted_ = loop_->Now() + options_.grace; });
    }
    loop_->Post([this] {
      if (loop_->Now() >= trusted_) FindLostClients();
    });
  });
  loop_->PostAt(loop_->Now() + options_.lease / 3, [this] {
    Renew();
    FindLostRuns();
  });
}

void FrontendLease::FindLostClients() {
  records_.TakeLostClients(options_.frontend.id, [this](const absl::StatusOr<std::vector<JobId>>& jobs) {
    if (!jobs.ok()) return LogFailure(jobs.status());
    for (const JobId& id : *jobs) options_.on_lost_client(id);
  });
}

void FrontendLease::FindLostRuns() {
  store_.LostRuns(options_.frontend.id, [this](const absl::StatusOr<std::vector<UnfinishedJob>>& jobs) {
    if (!jobs.ok()) return LogFailure(jobs.status());
    for (const UnfinishedJob& job : *jobs) options_.on_lost_run(job);
  });
}

}  // namespace kinora

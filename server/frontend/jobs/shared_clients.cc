#include "server/frontend/jobs/shared_clients.h"

#include <string>
#include <utility>

namespace kinora {

SharedClients::SharedClients(EventHub& hub, SharedClientRecords& records, SharedClientsOptions options,
                             std::unique_ptr<Executor> loop)
    : hub_(hub), records_(records), options_(std::move(options)), loop_(std::move(loop)) {
  loop_->PostAt(loop_->Now() + options_.poll, [this] { Poll(); });
}

void SharedClients::Left(const JobId& job) {
  loop_->PostAt(loop_->Now() + options_.grace, [this, job] { Check(job); });
}

void SharedClients::Check(const JobId& job) {
  if (hub_.subscriptions(job) > 0) return Left(job);
  records_.OfferClient(job, options_.id, [this, job](const absl::StatusOr<bool>& offered) {
    if (!offered.ok()) return Left(job);
    if (*offered) loop_->PostAt(loop_->Now() + kPollsToTake * options_.poll, [this, job] { Settle(job); });
  });
}

void SharedClients::Settle(const JobId& job) {
  records_.EndOffer(job, options_.id, [this, job](const absl::StatusOr<bool>& held) {
    if (!held.ok()) return loop_->PostAt(loop_->Now() + options_.poll, [this, job] { Settle(job); });
    if (*held && hub_.subscriptions(job) == 0) return options_.cancel(job);
    if (*held) Left(job);
  });
}

void SharedClients::Poll() {
  const auto again = [this] { loop_->PostAt(loop_->Now() + options_.poll, [this] { Poll(); }); };
  const std::vector<std::string> watched = hub_.watched();
  if (watched.empty()) return again();
  records_.TakeOffered(watched, options_.id, [this, again](const absl::StatusOr<std::vector<JobId>>& taken) {
    if (taken.ok()) {
      for (const JobId& job : *taken) Left(job);
    }
    again();
  });
}

}  // namespace kinora

#include "server/frontend/jobs/store_copy.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

class Digest {
 public:
  // Each with its length, so that no two sequences of values are alike.
  void Add(std::string_view text) {
    sha256_.Update(absl::StrCat(text.size(), ":"));
    sha256_.Update(text);
  }
  void Add(int64_t number) { Add(absl::StrCat(number)); }
  template <typename... Values>
  void AddAll(const Values&... values) {
    (Add(values), ...);
  }
  std::string Hex() { return sha256_.Hex(); }

 private:
  Sha256 sha256_;
};

void AddJob(const JobRow& job, Digest& digest) {
  digest.AddAll(job.ordinal, job.id, job.state, job.hidden, job.expire_micros, job.request_id, job.fingerprint,
                job.video, job.scheduling, job.detach, job.tied_to, job.owner, job.lease_micros, job.queued_micros,
                job.cancel_requested, job.lost_groups, job.last_sequence);
  for (const JobRow::Event& event : job.events) digest.AddAll(event.sequence, event.event);
}

absl::StatusOr<StoreSummary> Summarize(StoreRows& store, int batch) {
  StoreSummary summary;
  Digest digest;
  for (int64_t last = 0;;) {
    KINORA_ASSIGN_OR_RETURN(const std::vector<JobRow> jobs, store.JobsAfter(last, batch));
    if (jobs.empty()) break;
    for (const JobRow& job : jobs) {
      AddJob(job, digest);
      summary.events += static_cast<int64_t>(job.events.size());
    }
    summary.jobs += static_cast<int64_t>(jobs.size());
    last = jobs.back().ordinal;
  }
  KINORA_ASSIGN_OR_RETURN(const OtherRows others, store.Others());
  for (const auto& row : others.expired) digest.AddAll(row.id, row.micros);
  for (const auto& row : others.models) digest.AddAll(row.id, row.info);
  for (const auto& row : others.speeds) digest.AddAll(row.place, row.run);
  for (const auto& row : others.inputs) digest.AddAll(row.sha256, row.bytes, row.media_type, row.expire_micros);
  summary.models = static_cast<int64_t>(others.models.size());
  summary.inputs = static_cast<int64_t>(others.inputs.size());
  summary.sha256 = digest.Hex();
  return summary;
}

}  // namespace

absl::StatusOr<StoreSummary> CopyStore(StoreRows& from, StoreRows& to, int batch) {
  KINORA_ASSIGN_OR_RETURN(const std::string frontend, from.LiveFrontend());
  if (!frontend.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("frontend ", frontend, " has a lease on the store; stop it, or wait until its lease is over"));
  }
  KINORA_ASSIGN_OR_RETURN(const StoreSummary source, Summarize(from, batch));  // before anything depends on it
  KINORA_ASSIGN_OR_RETURN(int64_t last, to.BeginCopy());
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const std::vector<JobRow> jobs, from.JobsAfter(last, batch));
    if (jobs.empty()) break;
    KINORA_RETURN_IF_ERROR(to.PutJobs(jobs));
    last = jobs.back().ordinal;
  }
  KINORA_ASSIGN_OR_RETURN(const OtherRows others, from.Others());
  KINORA_RETURN_IF_ERROR(to.PutOthers(others));
  KINORA_ASSIGN_OR_RETURN(const StoreSummary copy, Summarize(to, batch));
  if (source != copy) {
    return absl::FailedPreconditionError(
        absl::StrCat("the copy has ", copy.jobs, " jobs and ", copy.events, " events, its source ", source.jobs,
                     " and ", source.events,
                     ", or they differ otherwise: it was begun from another store, or that has changed; "
                     "remove it (DROP SCHEMA kinora CASCADE, or the file jobs.db.copy) and copy again"));
  }
  KINORA_RETURN_IF_ERROR(from.CheckKept());
  KINORA_RETURN_IF_ERROR(to.CheckKept());
  KINORA_RETURN_IF_ERROR(to.EndCopy());
  return copy;
}

}  // namespace kinora

// The SQL of the job store: loads and saves records, events, request ids and models. No transitions, no threads; the
// caller holds a transaction around what belongs together.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

// What List asks: with an id_prefix of the index on ids, else of the jobs from the newest on. ?1: below this ordinal,
// ?2: a bit for each state (unfinished: of those before COMPLETED alone), ?3: the prefix, ?4: the first text that is
// behind all that begin with it, ?5: at most so many.
const char* ListStatement(bool by_prefix, bool unfinished);

class JobTables {
 public:
  // Opens `path`, an empty file or a store of this version or an older one (job_schema.h). DataLoss: damaged;
  // FailedPrecondition: written by a newer version.
  static absl::StatusOr<std::unique_ptr<JobTables>> Open(const std::string& path);

  Database& database() { return *database_; }

  // NotFound, also for hidden jobs (ErrorInfo EXPIRED after a sweep); DataLoss if the record itself is damaged.
  absl::StatusOr<JobRecord> Load(const JobId& id);
  absl::Status Insert(const JobRecord& record, const std::string& fingerprint);
  absl::Status Update(const JobRecord& record);
  absl::Status AddEvent(const v1::VideoEvent& event);
  absl::StatusOr<std::vector<v1::VideoEvent>> EventsAfter(const JobId& id, int64_t sequence);

  struct RequestKey {
    JobId id;
    std::string fingerprint;
  };
  absl::StatusOr<std::optional<RequestKey>> FindRequest(const std::string& request_id);

  // A damaged record is shown as a FAILED job with DATA_LOSS.
  absl::StatusOr<JobPage> List(const ListOptions& options);
  // Without the damaged ones, which are logged: one of them keeps no other job waiting.
  absl::StatusOr<std::vector<JobRecord>> Unfinished();

  absl::Status Hide(const JobId& id);
  absl::Status HideExpired(absl::Time now);
  absl::StatusOr<std::vector<JobId>> Hidden();
  // Removes the job with its events. An expired one leaves a line, so that its id stays an EXPIRED one for 30 days.
  absl::Status Purge(const JobId& id, absl::Time now);

  absl::Status PutModel(const v1::ModelInfo& model);
  absl::StatusOr<std::vector<v1::ModelInfo>> Models();

  absl::Status AddSpeed(const std::string& place, const v1::RunSpeed& run, int64_t kept);
  absl::StatusOr<v1::SpeedHistory> Speeds(const std::string& place);  // without damaged ones

  absl::Status PutInput(const InputRecord& input);
  absl::Status RemoveInput(const std::string& sha256);
  absl::StatusOr<std::vector<InputRecord>> Inputs();

 private:
  explicit JobTables(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status CheckTables();
  absl::Status NotFound(const JobId& id);

  std::unique_ptr<Database> database_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_TABLES_H_

// A job store with jobs in every storable state, made by the store's own calls. The databases in
// tests/server/frontend/data, one per schema version, contain these jobs. write_sample_jobs made each of them with the
// code of its version:
//   build/release/tests/server/frontend/write_sample_jobs tests/server/frontend/data/jobs.vN.db
// Each job's request_id identifies it and is also its prompt.
#ifndef KINORA_TESTS_SERVER_FRONTEND_JOBS_SAMPLE_JOBS_H_
#define KINORA_TESTS_SERVER_FRONTEND_JOBS_SAMPLE_JOBS_H_

#include <memory>
#include <string>
#include <vector>

#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"

namespace kinora {

inline constexpr absl::Time kSampleStart = absl::FromUnixSeconds(1'700'000'000);
inline constexpr absl::Duration kSampleLease = absl::Seconds(30);
inline constexpr char kSampleOwner[] = "embedded";
inline constexpr char kPurgedSampleId[] = "purged sample";  // request_id of a job of which only one row is left

inline constexpr char kSamplePlace[] = "sample model, bf16, one rank, cpu";  // two speeds, since version 2
// Since version 3 there is also one input, whose sha256 is 64 times "a".

struct SampleJob {
  std::string request_id;
  v1::Video::State state;
  int attempt = 0;
  int events = 1;                 // stored
  bool cancel_requested = false;  // for RUNNING jobs
};
// The jobs that a client sees, oldest first.
const std::vector<SampleJob>& VisibleSampleJobs();
inline constexpr int kHiddenSampleJobs = 2;  // one deleted, one expired; neither is purged yet

// `store` must be empty and use `clock`. CHECK-fails if a call of the store fails.
void MakeSampleJobs(SqliteJobStore& store, FakeClock& clock);

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_JOBS_SAMPLE_JOBS_H_

// A job store with jobs in every state that it can hold, made by the store's own calls. The databases in
// tests/server/frontend/data, one for each version of the schema, hold these; write_sample_jobs made each of them with
// the code of its version:
//   build/release/tests/server/frontend/write_sample_jobs tests/server/frontend/data/jobs.vN.db
// Each job is known by its request_id, which is also its prompt.
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
inline constexpr char kPurgedSampleId[] = "purged sample";  // request_id of the job of which only a line is left

inline constexpr char kSamplePlace[] = "sample model, bf16, one rank, cpu";  // of two speeds, from version 2 on
// From version 3 on there is one input besides, whose sha256 is 64 times "a".

struct SampleJob {
  std::string request_id;
  v1::Video::State state;
  int attempt = 0;
  int events = 1;                 // stored
  bool cancel_requested = false;  // of a RUNNING one
};
// Those that a client sees, oldest first.
const std::vector<SampleJob>& VisibleSampleJobs();
inline constexpr int kHiddenSampleJobs = 2;  // one deleted, one expired; neither purged yet

// `store` is empty and on `clock`. CHECK-fails if a call of the store does.
void MakeSampleJobs(JobStore& store, FakeClock& clock);

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_JOBS_SAMPLE_JOBS_H_

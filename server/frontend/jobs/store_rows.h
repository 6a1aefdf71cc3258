// The rows of a store as they are, by which one store is copied into another (store_copy.h). Used by one thread, while
// no frontend uses the store.
#ifndef KINORA_SERVER_FRONTEND_JOBS_STORE_ROWS_H_
#define KINORA_SERVER_FRONTEND_JOBS_STORE_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

// The columns of job_schema.cc, with serialised messages.
struct JobRow {
  int64_t ordinal = 0;
  std::string id;
  int64_t state = 0, hidden = 0, expire_micros = 0;
  std::string request_id;  // empty: none
  std::string fingerprint, video, scheduling;
  int64_t detach = 0;
  std::string tied_to;  // empty: to no frontend
  std::string owner;
  int64_t lease_micros = 0, queued_micros = 0, cancel_requested = 0, lost_groups = 0, last_sequence = 0;
  struct Event {
    int64_t sequence = 0;
    std::string event;
  };
  std::vector<Event> events;  // ascending
};

// All rows but those of jobs, sorted.
struct OtherRows {
  struct Expired {
    std::string id;
    int64_t micros = 0;
  };
  struct Model {
    std::string id, info;
  };
  struct Speed {
    std::string place, run;
  };
  struct Input {
    std::string sha256;
    int64_t bytes = 0;
    std::string media_type;
    int64_t expire_micros = 0;
  };
  std::vector<Expired> expired;
  std::vector<Model> models;
  std::vector<Speed> speeds;  // oldest first
  std::vector<Input> inputs;
};

class StoreRows {
 public:
  virtual ~StoreRows() = default;

  // A frontend whose lease, or whose run's lease, is not over: its ID; "" if there is none.
  virtual absl::StatusOr<std::string> LiveFrontend() = 0;

  // Jobs after this ordinal, ascending, at most `limit`. DataLoss, naming the job: a record is damaged.
  virtual absl::StatusOr<std::vector<JobRow>> JobsAfter(int64_t ordinal, int limit) = 0;
  virtual absl::StatusOr<OtherRows> Others() = 0;

  // Begins a copy into the store, or goes on with one: returns the ordinal of the last job that it has, 0 if it has
  // none. FailedPrecondition: the store has jobs, and is no copy that has begun.
  virtual absl::StatusOr<int64_t> BeginCopy() = 0;
  virtual absl::Status PutJobs(const std::vector<JobRow>& jobs) = 0;  // all or none, durable
  virtual absl::Status PutOthers(const OtherRows& others) = 0;        // replaces them
  // FailedPrecondition: a frontend has used the store since it was opened.
  virtual absl::Status CheckKept() { return absl::OkStatus(); }
  virtual absl::Status EndCopy() = 0;  // frontends refuse the store until this call
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_STORE_ROWS_H_

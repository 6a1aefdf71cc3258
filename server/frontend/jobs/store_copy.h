// Copies a store into another, of any two kinds, while no frontend uses either.
#ifndef KINORA_SERVER_FRONTEND_JOBS_STORE_COPY_H_
#define KINORA_SERVER_FRONTEND_JOBS_STORE_COPY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/frontend/jobs/store_rows.h"

namespace kinora {

struct StoreSummary {
  int64_t jobs = 0, events = 0, models = 0, inputs = 0;
  std::string sha256;  // of all rows
  bool operator==(const StoreSummary&) const = default;
};

// Jobs keep their IDs, request IDs, attempts, events and order. If it is interrupted, calling it again goes on where it
// was, at most `batch` jobs before. FailedPrecondition: a frontend's lease is not over, `to` has other jobs, or the two
// differ afterwards.
absl::StatusOr<StoreSummary> CopyStore(StoreRows& from, StoreRows& to, int batch = 500);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_STORE_COPY_H_

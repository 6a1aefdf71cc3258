// The pages of JobTables::List.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_LISTING_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_LISTING_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

struct ListQuery {
  bool by_prefix = false;   // uses the index on ids
  bool unfinished = false;  // only states before COMPLETED; not with by_prefix
  bool ascending = false;   // oldest first; otherwise newest first
};

// ?1: only ordinals below this, or above it if ascending; ?2: a bit per state; ?3: the prefix; ?4: the first text after
// all that begin with it; ?5: the limit.
const char* ListStatement(const ListQuery& query);

// The ordinal after which a page begins. after: of options.after_id, if that is set. InvalidArgument: page_token is not
// one of a listing in this order.
absl::StatusOr<int64_t> PageBegin(const ListOptions& options, std::optional<int64_t> after);
// The token of the page that follows the video with this ordinal.
std::string PageToken(bool ascending, int64_t ordinal);
inline constexpr size_t kMaxPageBytes = 2 << 20;  // a gRPC client accepts 4 MiB; prompts can be 32 KiB per video
// Whether the video has the labels and words of the options.
bool IsSearchedFor(const v1::Video& video, const ListOptions& options);

// One page of JobStore::List. It reads at most page_size records, or with labels or words at most 1000. after: the
// ordinal of options.after_id, if that is set. A damaged record is listed as a FAILED job with DATA_LOSS.
absl::StatusOr<JobPage> ListJobs(Database& database, const ListOptions& options, std::optional<int64_t> after);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_LISTING_H_

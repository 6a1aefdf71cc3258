// The pages of JobTables::List: what all databases do alike, and the SQL of SQLite.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_LISTING_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_LISTING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

struct ListQuery {
  bool by_prefix = false;   // uses the index on ids, whatever the states
  bool unfinished = false;  // only states before COMPLETED
  bool ascending = false;   // oldest first; otherwise newest first
};
ListQuery QueryOf(const ListOptions& options);
int64_t WantedStates(const ListOptions& options);      // a bit per state
std::string BehindAllWith(const std::string& prefix);  // the first text after all that begin with it

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

// Builds a page from the rows of a listing, in their order.
class JobPageBuilder {
 public:
  explicit JobPageBuilder(const ListOptions& options);
  // How many rows to read at most: one more than it uses, to find out whether a page follows.
  int64_t limit() const { return searched_ + 1; }
  // Returns false once the page is complete. A damaged record is listed as a FAILED job with DATA_LOSS.
  bool Add(int64_t ordinal, const JobId& id, const std::string& video, bool sound);
  JobPage Take() { return std::move(page_); }

 private:
  const ListOptions& options_;
  const int64_t searched_;
  JobPage page_;
  int64_t rows_ = 0, last_ = 0;
  size_t bytes_ = 0;
};

// One page of JobStore::List. It reads at most page_size records, or with labels or words at most 1000. after: the
// ordinal of options.after_id, if that is set.
absl::StatusOr<JobPage> ListJobs(Database& database, const ListOptions& options, std::optional<int64_t> after);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_LISTING_H_

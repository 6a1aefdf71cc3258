#include "server/frontend/postgres/postgres_listing.h"

#include "engine/base/status_macros.h"

namespace kinora {

// The + 0 keeps the planner from reading all jobs in order of ordinals.
#define KINORA_LIST_IN_ORDER(where, ordinal, after, order)                                                     \
  "SELECT j.ordinal, j.id, r.video FROM jobs j JOIN records r ON r.job = j.id WHERE " where                    \
  " j.hidden = 0 AND (1::bigint << j.state::int) & $2 <> 0 AND j.ordinal " after " $1 ORDER BY " ordinal order \
  " LIMIT $3"
#define KINORA_LIST(ascending, where, ordinal) \
  ((ascending) ? KINORA_LIST_IN_ORDER(where, ordinal, ">", " ASC") : KINORA_LIST_IN_ORDER(where, ordinal, "<", " DESC"))

const char* PostgresListStatement(const ListQuery& query) {
  if (query.by_prefix) return KINORA_LIST(query.ascending, "j.id >= $4 AND j.id < $5 AND", "j.ordinal + 0");
  if (query.unfinished) return KINORA_LIST(query.ascending, "j.state < 4 AND", "j.ordinal");
  return KINORA_LIST(query.ascending, "", "j.ordinal");
}

absl::StatusOr<JobPage> ListPostgresJobs(SqlTransaction& transaction, const ListOptions& options,
                                         std::optional<int64_t> after) {
  KINORA_ASSIGN_OR_RETURN(const int64_t begin, PageBegin(options, after));
  JobPageBuilder page(options);
  SqlValues values = {begin, WantedStates(options), page.limit()};
  if (!options.id_prefix.empty()) {
    values.emplace_back(options.id_prefix);
    values.emplace_back(BehindAllWith(options.id_prefix));
  }
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction.Run(PostgresListStatement(QueryOf(options)), values));
  for (int row = 0; row < rows.size(); ++row) {
    if (!page.Add(rows.Int(row, 0), rows.Bytes(row, 1), rows.Bytes(row, 2), /*sound=*/true)) break;
  }
  return page.Take();
}

}  // namespace kinora

#include "server/frontend/jobs/sqlite_job_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/frontend/jobs/job_listing.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Returns SQLite's query plan for a statement.
std::string PlanOf(const ListQuery& query) {
  const auto tables = SqliteJobTables::Open(":memory:").value();
  const std::string explain = absl::StrCat("EXPLAIN QUERY PLAN ", ListStatement(query));
  absl::StatusOr<Statement> plan = tables->database().Prepare(explain.c_str());
  EXPECT_THAT(plan, IsOk());
  std::string text;
  for (absl::StatusOr<bool> row = plan->Row(); row.ok() && *row; row = plan->Row()) {
    absl::StrAppend(&text, plan->Bytes(3), "\n");
  }
  return text;
}

// Commands that accept the start of an id use this query; it must not read a million jobs.
TEST(SqliteJobTables, TheBeginningOfAnIdIsLookedUpInTheIndex) {
  for (const bool ascending : {false, true}) {
    EXPECT_THAT(
        PlanOf({.by_prefix = true, .ascending = ascending}),
        AllOf(HasSubstr("SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id>? AND id<?)"), Not(HasSubstr("SCAN"))));
  }
}

TEST(SqliteJobTables, AllJobsAreReadFromTheNewestOrTheOldestOnWithoutSortingThem) {
  EXPECT_THAT(PlanOf({}),
              AllOf(HasSubstr("SEARCH jobs USING INTEGER PRIMARY KEY (rowid<?)"), Not(HasSubstr("TEMP B-TREE"))));
  EXPECT_THAT(PlanOf({.ascending = true}),
              AllOf(HasSubstr("SEARCH jobs USING INTEGER PRIMARY KEY (rowid>?)"), Not(HasSubstr("TEMP B-TREE"))));
}

// A page of waiting jobs must not read the million that have ended.
TEST(SqliteJobTables, JobsThatHaveNotEndedAreReadFromTheirOwnIndex) {
  for (const bool ascending : {false, true}) {
    EXPECT_THAT(PlanOf({.unfinished = true, .ascending = ascending}),
                AllOf(HasSubstr("SEARCH jobs USING INDEX jobs_unfinished"), Not(HasSubstr("TEMP B-TREE"))));
  }
}

}  // namespace
}  // namespace kinora

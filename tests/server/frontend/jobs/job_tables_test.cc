#include "server/frontend/jobs/job_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// How SQLite says that it would answer a statement.
std::string PlanOf(Database& database, const std::string& statement) {
  const std::string explain = absl::StrCat("EXPLAIN QUERY PLAN ", statement);
  absl::StatusOr<Statement> plan = database.Prepare(explain.c_str());
  EXPECT_THAT(plan, IsOk());
  std::string text;
  for (absl::StatusOr<bool> row = plan->Row(); row.ok() && *row; row = plan->Row()) {
    absl::StrAppend(&text, plan->Bytes(3), "\n");
  }
  return text;
}

// Every command that takes the beginning of an id asks so; a million jobs must not be read for it.
TEST(JobTables, TheBeginningOfAnIdIsLookedUpInTheIndex) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto tables, JobTables::Open(":memory:"));
  EXPECT_THAT(
      PlanOf(tables->database(), ListStatement(/*by_prefix=*/true, /*unfinished=*/false)),
      AllOf(HasSubstr("SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id>? AND id<?)"), Not(HasSubstr("SCAN"))));
}

TEST(JobTables, AllJobsAreReadFromTheNewestOnWithoutSortingThem) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto tables, JobTables::Open(":memory:"));
  EXPECT_THAT(PlanOf(tables->database(), ListStatement(/*by_prefix=*/false, /*unfinished=*/false)),
              AllOf(HasSubstr("SEARCH jobs USING INTEGER PRIMARY KEY (rowid<?)"), Not(HasSubstr("TEMP B-TREE"))));
}

// A page of what waits must not read the million that have ended since.
TEST(JobTables, JobsThatHaveNotEndedAreReadFromTheirOwnIndex) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto tables, JobTables::Open(":memory:"));
  EXPECT_THAT(PlanOf(tables->database(), ListStatement(/*by_prefix=*/false, /*unfinished=*/true)),
              AllOf(HasSubstr("SEARCH jobs USING INDEX jobs_unfinished"), Not(HasSubstr("TEMP B-TREE"))));
}

}  // namespace
}  // namespace kinora

// Stores with jobs in every state are copied between SQLite and PostgreSQL, also in pieces.
#include "server/frontend/jobs/store_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_store_rows.h"
#include "server/frontend/postgres/postgres_store_rows.h"
#include "server/frontend/postgres/postgres_stores.h"
#include "tests/server/frontend/jobs/sample_jobs.h"
#include "tests/testing/postgres_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Rows of a store that fails when it is to store jobs for the nth time.
class InterruptedRows : public StoreRows {
 public:
  InterruptedRows(StoreRows& rows, int puts) : rows_(rows), puts_(puts) {}
  absl::StatusOr<std::string> LiveFrontend() override { return rows_.LiveFrontend(); }
  absl::StatusOr<std::vector<JobRow>> JobsAfter(int64_t ordinal, int limit) override {
    return rows_.JobsAfter(ordinal, limit);
  }
  absl::StatusOr<OtherRows> Others() override { return rows_.Others(); }
  absl::StatusOr<int64_t> BeginCopy() override { return rows_.BeginCopy(); }
  absl::Status PutJobs(const std::vector<JobRow>& jobs) override {
    return --puts_ == 0 ? absl::AbortedError("interrupted") : rows_.PutJobs(jobs);
  }
  absl::Status PutOthers(const OtherRows& others) override { return rows_.PutOthers(others); }
  absl::Status EndCopy() override { return rows_.EndCopy(); }

 private:
  StoreRows& rows_;
  int puts_;
};

class StoreCopyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!PostgresServer::IsInstalled()) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = PostgresServer::Shared().NewDatabase();
    FakeClock clock(kSampleStart);
    auto store = SqliteJobStore::Open(Path("source"), {}, clock, [](const v1::VideoEvent&) {}).value();
    MakeSampleJobs(*store, clock);
  }
  std::string Path(const std::string& name) { return directory_.File(name); }
  std::unique_ptr<SqliteStoreRows> Source() { return SqliteStoreRows::Open(Path("source")).value(); }
  std::unique_ptr<PostgresStoreRows> Database() {
    return PostgresStoreRows::Open(PostgresServer::Driver(), url_, SchemaUse::kCopyInto).value();
  }
  std::unique_ptr<PostgresStoreRows> DatabaseAsSource() {
    return PostgresStoreRows::Open(PostgresServer::Driver(), url_, SchemaUse::kCopyFrom).value();
  }
  absl::StatusOr<std::unique_ptr<PostgresStores>> Serve() {
    return PostgresStores::Open({.driver = &PostgresServer::Driver(), .url = url_, .listener = [](const auto&) {}});
  }

  TemporaryDirectory directory_;
  std::string url_;
};

TEST_F(StoreCopyTest, EveryRowIsCopiedToADatabaseAndBack) {
  KINORA_ASSERT_OK_AND_ASSIGN(const StoreSummary there, CopyStore(*Source(), *Database()));
  EXPECT_GT(there.jobs, 5);
  EXPECT_GT(there.events, there.jobs);
  EXPECT_EQ(there.inputs, 1);
  auto back = SqliteStoreRows::Create(Path("back")).value();
  KINORA_ASSERT_OK_AND_ASSIGN(const StoreSummary again, CopyStore(*DatabaseAsSource(), *back));
  EXPECT_EQ(again, there);
  EXPECT_FALSE(std::filesystem::exists(Path("back.copy")));
  FakeClock clock(kSampleStart);
  auto copy = SqliteJobStore::Open(Path("back"), {}, clock, [](const v1::VideoEvent&) {});
  ASSERT_THAT(copy, IsOk());
  const auto page = WaitFor<JobPage>([&](auto done) { (*copy)->List({.page_size = 100}, std::move(done)); });
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(page->videos.size(), VisibleSampleJobs().size());
}

TEST_F(StoreCopyTest, JobsThatComeAfterACopyAreListedAfterIt) {
  ASSERT_THAT(CopyStore(*Source(), *Database()), IsOk());
  auto stores = Serve().value();
  v1::CreateVideoRequest request;
  request.set_model("m");
  const auto created =
      WaitFor<Created>([&](auto done) { stores->jobs().Create(request, request.generation(), 0, std::move(done)); });
  ASSERT_THAT(created, IsOk());
  const auto page = WaitFor<JobPage>([&](auto done) { stores->jobs().List({.page_size = 1}, std::move(done)); });
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(page->videos.at(0).id(), created->video.id());
  // And request IDs of copied jobs are known.
  request.set_request_id(VisibleSampleJobs()[0].request_id);
  EXPECT_THAT(WaitFor<Created>([&](auto done) { stores->jobs().FindCreated(request, std::move(done)); }).status(),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(StoreCopyTest, AnInterruptedCopyIsRefusedByFrontendsAndGoesOnWhereItWas) {
  const auto source = Source();
  for (int time = 0; time < 2; ++time) {
    const auto database = Database();
    InterruptedRows interrupted(*database, 2);
    EXPECT_THAT(CopyStore(*source, interrupted, /*batch=*/2), StatusIs(absl::StatusCode::kAborted));
  }
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.jobs").Int(0, 0), 4);
  EXPECT_THAT(Serve(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has not ended")));
  EXPECT_THAT(PostgresStoreRows::Open(PostgresServer::Driver(), url_, SchemaUse::kCopyFrom),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has not ended")));
  EXPECT_THAT(CopyStore(*source, *Database(), /*batch=*/2), IsOk());
  EXPECT_THAT(Serve(), IsOk());

  auto back = SqliteStoreRows::Create(Path("back")).value();
  InterruptedRows interrupted(*back, 3);
  EXPECT_THAT(CopyStore(*DatabaseAsSource(), interrupted, /*batch=*/2), StatusIs(absl::StatusCode::kAborted));
  EXPECT_FALSE(std::filesystem::exists(Path("back")));
  back.reset();
  back = SqliteStoreRows::Create(Path("back")).value();
  EXPECT_THAT(CopyStore(*DatabaseAsSource(), *back, /*batch=*/2), IsOk());
}

TEST_F(StoreCopyTest, AStoreWithJobsOrWithAFrontendIsNoPartOfACopy) {
  ASSERT_THAT(CopyStore(*Source(), *Database()), IsOk());
  EXPECT_THAT(CopyStore(*Source(), *Database()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has jobs")));
  EXPECT_THAT(SqliteStoreRows::Create(Path("source")).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("move it")));
  auto stores = Serve().value();
  ASSERT_THAT(WaitForStatus([&](auto done) {
                stores->frontends().PutFrontend({.id = "busy"}, absl::Minutes(1), std::move(done));
              }),
              IsOk());
  stores.reset();
  auto back = SqliteStoreRows::Create(Path("back")).value();
  EXPECT_THAT(CopyStore(*DatabaseAsSource(), *back),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("frontend busy has a lease")));
}

TEST_F(StoreCopyTest, AnEmptyDatabaseIsNoSource) {
  EXPECT_THAT(PostgresStoreRows::Open(PostgresServer::Driver(), url_, SchemaUse::kCopyFrom),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no frontend has used it")));
}

TEST_F(StoreCopyTest, AJobThatIsNotWholeIsNamedBeforeTheCopyBegins) {
  ASSERT_THAT(CopyStore(*Source(), *Database()), IsOk());
  PostgresServer::Execute(url_, "DELETE FROM kinora.records WHERE job = (SELECT max(job) FROM kinora.records)");
  auto back = SqliteStoreRows::Create(Path("back")).value();
  EXPECT_THAT(CopyStore(*DatabaseAsSource(), *back), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is damaged")));
}

// A copy that was begun from one store is not ended with another.
TEST_F(StoreCopyTest, ACopyOfTwoStoresIsNoticed) {
  const auto source = Source();
  {
    const auto database = Database();
    InterruptedRows interrupted(*database, 2);
    ASSERT_THAT(CopyStore(*source, interrupted, /*batch=*/2), StatusIs(absl::StatusCode::kAborted));
  }
  PostgresServer::Execute(url_, "UPDATE kinora.jobs SET lost_groups = lost_groups + 1");
  EXPECT_THAT(CopyStore(*source, *Database()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("and copy again")));
  EXPECT_THAT(Serve(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has not ended")));
}

}  // namespace
}  // namespace kinora

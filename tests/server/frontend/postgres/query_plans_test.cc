// What calls read in a database with many ended jobs: as much as in one with few.
#include <gmock/gmock.h>

#include "tests/server/frontend/postgres/store_client.h"

namespace kinora {
namespace {

constexpr int kEnded = 50'000;

// Copies an ended job, with its record and events. Returns once the planner knows.
void Multiply(const std::string& url, const JobId& id) {
  PostgresServer::Execute(
      url, absl::StrCat("SET search_path = kinora, pg_catalog;"
                        "INSERT INTO jobs (id, state, expire_micros, request_id, fingerprint, scheduling, detach, "
                        "tied_to, owner, lease_micros, queued_micros, cancel_requested, lost_groups, last_sequence) "
                        "SELECT 'copy' || n, state, expire_micros, 'request' || n, fingerprint, scheduling, detach, "
                        "tied_to, owner, lease_micros, queued_micros, cancel_requested, lost_groups, last_sequence "
                        "FROM jobs, generate_series(1, ",
                        kEnded, ") n WHERE id = '", id,
                        "';"
                        "INSERT INTO records SELECT 'copy' || n, video FROM records, generate_series(1, ",
                        kEnded, ") n WHERE job = '", id,
                        "';"
                        "INSERT INTO events SELECT 'copy' || n, sequence, event FROM events, generate_series(1, ",
                        kEnded, ") n WHERE job = '", id, "'; ANALYZE"));
}

struct Reads {
  int64_t sequential = 0, fetched = 0;  // scans of whole tables, rows found through indexes
};

// Since the database was created, by sessions that have ended.
Reads ReadsOf(const std::string& url) {
  const SqlRows rows =
      PostgresServer::Query(url,
                            "SELECT sum(seq_scan)::bigint, sum(idx_tup_fetch)::bigint FROM pg_stat_user_tables "
                            "WHERE schemaname = 'kinora' AND relname IN ('jobs', 'records', 'events')");
  return {.sequential = rows.Int(0, 0), .fetched = rows.Int(0, 1)};
}

template <typename T, typename Call>
void MustSucceed(Call call) {
  EXPECT_THAT(WaitFor<T>(call), IsOk());
}

void CallEverything(StoreClient& frontend, const JobId& ended) {
  JobStore& jobs = frontend.jobs();
  for (int i = 0; i < 10; ++i) {
    const auto created = frontend.Create(RequestNamed(absl::StrCat("new", i)));
    ASSERT_THAT(created, IsOk());
    EXPECT_TRUE(frontend.Create(RequestNamed(absl::StrCat("new", i)))->replayed);
    if (i % 2 == 0) continue;
    const auto claimed = frontend.Claim(created->video.id());
    ASSERT_THAT(claimed, IsOk());
    EXPECT_THAT(frontend.Append(claimed->attempt, "denoise"), IsOk());
    MustSucceed<Lease>([&](auto done) { jobs.Renew(claimed->attempt, kLease, std::move(done)); });
    EXPECT_THAT(frontend.History(created->video.id()), IsOk());
    EXPECT_THAT(frontend.Finish(claimed->attempt), IsOk());
  }
  MustSucceed<std::vector<UnfinishedJob>>([&](auto done) { jobs.Unfinished(std::move(done)); });
  MustSucceed<std::vector<JobId>>([&](auto done) { jobs.Unknown({"copy7", "unknown"}, std::move(done)); });
  MustSucceed<std::vector<JobId>>([&](auto done) { jobs.SweepExpired(absl::UnixEpoch(), std::move(done)); });
  MustSucceed<v1::Video>([&](auto done) { jobs.Cancel(ended, std::move(done)); });
  EXPECT_THAT(WaitForStatus([&](auto done) { jobs.Delete("copy8", std::move(done)); }), IsOk());
  EXPECT_THAT(WaitForStatus([&](auto done) { jobs.Purge("copy8", std::move(done)); }), IsOk());
  for (const bool ascending : {true, false}) {
    ListOptions options{.page_size = 20, .ascending = ascending};
    MustSucceed<JobPage>([&](auto done) { jobs.List(options, std::move(done)); });
    options.after_id = "copy100";
    MustSucceed<JobPage>([&](auto done) { jobs.List(options, std::move(done)); });
    MustSucceed<JobPage>([&](auto done) { jobs.List({.page_size = 20, .id_prefix = "copy4711"}, std::move(done)); });
  }
  EXPECT_THAT(frontend.LostRuns(), testing::IsEmpty());
  MustSucceed<std::vector<JobId>>(
      [&](auto done) { frontend.stores().frontends().TakeLostClients("a", std::move(done)); });
  MustSucceed<std::vector<JobId>>([&](auto done) {
    frontend.stores().shared_clients().TakeOffered({"copy9", "copy10"}, "a", std::move(done));
  });
}

TEST(QueryPlans, NoCallReadsAllJobs) {
  if (!PostgresServer::IsInstalled()) GTEST_SKIP() << "PostgreSQL is not installed";
  const std::string url = PostgresServer::Shared().NewDatabase();
  JobId ended;
  {
    StoreClient first(url, "a");
    const auto created = first.Create(RequestNamed("first"));
    ASSERT_THAT(created, IsOk());
    const auto claimed = first.Claim(created->video.id());
    ASSERT_THAT(claimed, IsOk());
    ASSERT_THAT(first.Finish(claimed->attempt), IsOk());
    ended = created->video.id();
    Multiply(url, ended);
  }
  const Reads before = ReadsOf(url);
  EXPECT_GT(before.sequential, 0) << "copying reads whole tables, or nothing is counted";
  {
    StoreClient frontend(url, "a");
    CallEverything(frontend, ended);
  }
  const Reads after = ReadsOf(url);
  EXPECT_EQ(after.sequential, before.sequential);
  EXPECT_GT(after.fetched, before.fetched);
  EXPECT_LT(after.fetched - before.fetched, 1000);
}

}  // namespace
}  // namespace kinora

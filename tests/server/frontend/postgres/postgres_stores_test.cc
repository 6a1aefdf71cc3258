// The stores in a real PostgreSQL server: connections that break at each message, frontends that write at once, and a
// database that is away. What the calls answer otherwise is shown by jobs/random_operations_test.cc.
#include "server/frontend/postgres/postgres_stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/check.h"
#include "server/common/status_details.h"
#include "tests/server/frontend/postgres/store_client.h"
#include "tests/testing/cutting_proxy.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class PostgresStoresTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!PostgresServer::IsInstalled()) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = PostgresServer::Shared().NewDatabase();
  }
  static std::string Through(const CuttingProxy& proxy, const std::string& url) {
    return absl::StrCat(absl::StrReplaceAll(url, {{absl::StrCat(":", PostgresServer::Shared().port(), "/"),
                                                   absl::StrCat(":", proxy.port(), "/")}}),
                        "?sslmode=disable&gssencmode=disable");
  }
  std::string url_;
};

// One job's life in seven writes. Every one must succeed, and be made once, whatever breaks in between.
void LiveThrough(StoreClient& frontend, const std::string& name) {
  const auto created = frontend.Create(RequestNamed(name));
  ASSERT_THAT(created, IsOk());
  EXPECT_FALSE(created->replayed);
  const JobId& id = created->video.id();
  auto claimed = frontend.Claim(id);
  ASSERT_THAT(claimed, IsOk());
  EXPECT_THAT(frontend.Append(claimed->attempt, "denoise"), IsOk());
  EXPECT_THAT(frontend.Requeue(claimed->attempt, {.why = "tested"}), IsOk());
  claimed = frontend.Claim(id);
  ASSERT_THAT(claimed, IsOk());
  EXPECT_EQ(claimed->attempt.number, 2);
  EXPECT_THAT(frontend.Append(claimed->attempt, "decode"), IsOk());
  EXPECT_THAT(frontend.Finish(claimed->attempt), IsOk());
  const auto history = frontend.History(id);
  ASSERT_THAT(history, IsOk());
  EXPECT_EQ(history->video.state(), v1::Video::COMPLETED);
  std::vector<int64_t> sequences;
  for (const v1::VideoEvent& event : history->events) sequences.push_back(event.sequence());
  EXPECT_THAT(sequences, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(frontend.Heard(id), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

class BrokenConnectionTest : public PostgresStoresTest, public testing::WithParamInterface<CuttingProxy::Cut> {};

TEST_P(BrokenConnectionTest, AtEachMessageEveryCallIsMadeOnce) {
  if (IsSkipped()) return;
  CuttingProxy proxy(PostgresServer::Shared().port());
  StoreClient frontend(Through(proxy, url_), "a");
  int message = 0;
  do {
    proxy.CutAt(++message, GetParam());
    LiveThrough(frontend, absl::StrCat("job", message));
  } while (proxy.has_cut() && !HasFailure());
  EXPECT_FALSE(HasFailure()) << "at message " << message;
  EXPECT_GT(message, 50);
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.jobs").Int(0, 0), message);
}

std::string NameOf(CuttingProxy::Cut cut) {
  constexpr const char* kNames[] = {"Before", "After", "Answer"};
  return kNames[static_cast<int>(cut)];
}

INSTANTIATE_TEST_SUITE_P(Cuts, BrokenConnectionTest,
                         testing::Values(CuttingProxy::Cut::kBefore, CuttingProxy::Cut::kAfter,
                                         CuttingProxy::Cut::kAnswer),
                         [](const auto& info) { return NameOf(info.param); });

// The database goes away during a COMMIT that it does not make, and comes back after the call's patience.
TEST_F(PostgresStoresTest, AChangeThatWasNotCommittedIsNotAcknowledged) {
  CuttingProxy proxy(PostgresServer::Shared().port());
  StoreClient frontend(Through(proxy, url_), "a", {.patience = absl::ZeroDuration()});
  for (int message = 1;; ++message) {
    proxy.CutAt(message, CuttingProxy::Cut::kBefore);
    const auto created = frontend.Create(RequestNamed(absl::StrCat("job", message)));
    const auto jobs = PostgresServer::Query(
        url_, absl::StrCat("SELECT count(*) FROM kinora.jobs WHERE request_id = 'job", message, "'"));
    EXPECT_EQ(jobs.Int(0, 0), created.ok() ? 1 : 0) << message << " " << created.status();
    if (!proxy.has_cut()) break;
  }
}

TEST_F(PostgresStoresTest, EndedSessionsLoseAndDoubleNothing) {
  StoreClient frontend(url_, "a", {.patience = absl::Seconds(60)});
  std::atomic<int> lives = 0;
  std::vector<std::thread> clients;
  clients.reserve(4);
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 20 && !HasFailure(); ++i)
        LiveThrough(frontend, absl::StrCat(client, "-", i)), ++lives, lives.notify_all();
    });
  }
  int ends = 0;
  for (int seen = -1; lives < 80 && !HasFailure();) {
    lives.wait(seen);  // one for each life
    seen = lives;
    PostgresServer::Execute(url_,
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            "WHERE application_name = 'kinora-frontend' AND pid <> pg_backend_pid() "
                            "ORDER BY random() LIMIT 1");
    ++ends;
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(ends, 10);
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.jobs").Int(0, 0), 80);
}

TEST_F(PostgresStoresTest, OfTwoFrontendsOneGetsAJob) {
  constexpr int kJobs = 100;
  StoreClient a(url_, "a"), b(url_, "b");
  std::vector<JobId> ids;
  ids.reserve(kJobs);
  for (int i = 0; i < kJobs; ++i) ids.push_back(a.Create(RequestNamed(absl::StrCat(i))).value().video.id());
  std::atomic<int> claims = 0, refusals = 0;
  const auto claim_all = [&](StoreClient& frontend) {
    for (const JobId& id : ids) {
      const auto claimed = frontend.Claim(id);
      if (claimed.ok()) {
        EXPECT_EQ(claimed->attempt.number, 1);
        ++claims;
      } else {
        EXPECT_EQ(claimed.status().code(), absl::StatusCode::kFailedPrecondition) << claimed.status();
        ++refusals;
      }
    }
  };
  std::thread other([&] { claim_all(b); });
  claim_all(a);
  other.join();
  EXPECT_EQ(claims, kJobs);
  EXPECT_EQ(refusals, kJobs);
}

// Rows that another transaction has changed are read as it left them: the events that one frontend stores and the
// resume points that the other does are parts of the same record.
TEST_F(PostgresStoresTest, FrontendsThatChangeAJobAtOnceLoseNoChange) {
  constexpr int kChanges = 200;
  StoreClient a(url_, "a"), b(url_, "b");
  const JobId id = a.Create(RequestNamed("shared")).value().video.id();
  const Attempt attempt = a.Claim(id).value().attempt;
  std::thread other([&] {
    for (int i = 1; i <= kChanges; ++i) {
      const auto replaced = b.PutResumePoint(attempt, i);
      ASSERT_THAT(replaced, IsOk());
      ASSERT_EQ(replaced->has_value() ? (*replaced)->point().step() : 0, i - 1);
    }
  });
  for (int i = 0; i < kChanges; ++i) EXPECT_THAT(a.Append(attempt, absl::StrCat("stage ", i)), IsOk());
  other.join();
  const auto history = a.History(id);
  ASSERT_THAT(history, IsOk());
  EXPECT_THAT(history->events, SizeIs(2 + kChanges));
  EXPECT_EQ(history->last_sequence, 2 + kChanges);
  EXPECT_EQ(history->video.progress().stage(), absl::StrCat("stage ", kChanges - 1));
  EXPECT_EQ(history->video.resume_point().step(), kChanges);
}

TEST_F(PostgresStoresTest, ARequestIdThatTwoFrontendsGetAtOnceMakesOneJob) {
  StoreClient a(url_, "a"), b(url_, "b");
  for (int i = 0; i < 50; ++i) {
    absl::StatusOr<Created> of_b;
    std::thread other([&] { of_b = b.Create(RequestNamed(absl::StrCat("once", i))); });
    const auto of_a = a.Create(RequestNamed(absl::StrCat("once", i)));
    other.join();
    ASSERT_THAT(of_a, IsOk());
    ASSERT_THAT(of_b, IsOk());
    EXPECT_EQ(of_a->video.id(), of_b->video.id());
    EXPECT_NE(of_a->replayed, of_b->replayed);
  }
}

TEST_F(PostgresStoresTest, CallsFailWhileTheDatabaseIsAwayAndWorkAfterwards) {
  CuttingProxy proxy(PostgresServer::Shared().port());
  StoreClient frontend(Through(proxy, url_), "a", {.patience = absl::Seconds(2)});
  const JobId id = frontend.Create(RequestNamed("kept")).value().video.id();
  proxy.SetAway(true);
  EXPECT_THAT(frontend.Get(id).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the database is not available")));
  EXPECT_THAT(frontend.Claim(id).status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_GT(frontend.stores().Unwritable(), absl::ZeroDuration());
  proxy.SetAway(false);
  EXPECT_THAT(frontend.Claim(id), IsOk());
  EXPECT_THAT(frontend.Get(id), IsOk());
  EXPECT_EQ(frontend.stores().Unwritable(), absl::ZeroDuration());
}

// A frontend that could not renew a lease for the database's absence keeps its run.
TEST_F(PostgresStoresTest, LeasesDoNotCountUntilTheDatabaseHasBeenBackForALease) {
  CuttingProxy proxy(PostgresServer::Shared().port());
  StoreClient of_run(url_, "a"),
      other(Through(proxy, url_), "b", {.grace = absl::Seconds(5), .patience = absl::Seconds(2)});
  const JobId id = of_run.Create(RequestNamed("run")).value().video.id();
  const Attempt attempt = of_run.Claim(id).value().attempt;
  PostgresServer::Execute(url_, "UPDATE kinora.jobs SET lease_micros = 0");
  other.AwaitLostRun();  // the server may have been started a moment ago
  proxy.SetAway(true);
  EXPECT_THAT(other.Get(id).status(), StatusIs(absl::StatusCode::kUnavailable));
  proxy.SetAway(false);
  EXPECT_THAT(other.LostRuns(), IsEmpty());
  EXPECT_THAT(other.Requeue(attempt, {.why = "lost", .if_lost = true}).status(), StatusIs(absl::StatusCode::kAborted));
  other.AwaitLostRun();
  EXPECT_THAT(other.Requeue(attempt, {.why = "lost", .if_lost = true}), IsOk());
}

TEST_F(PostgresStoresTest, ChangesFailOnceTheStateIsLost) {
  absl::Status state;
  StoreClient frontend(url_, "a", {.check_state = [&] { return state; }});
  const JobId id = frontend.Create(RequestNamed("before")).value().video.id();
  state = absl::UnavailableError("lost");
  EXPECT_THAT(frontend.Create(RequestNamed("after")).status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(frontend.Claim(id).status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(frontend.Get(id), IsOk());
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.jobs").Int(0, 0), 1);
}

// A frontend that is cut off does not know what another did with the database meanwhile.
TEST_F(PostgresStoresTest, ADatabaseThatWasTakenAndLeftIsLostForItsFirstFrontend) {
  CuttingProxy proxy(PostgresServer::Shared().port());
  std::atomic<bool> taken = false;
  StoreClient first(Through(proxy, url_), "a", {.on_taken = [&] { taken = true, taken.notify_all(); }});
  proxy.SetAway(true);
  {
    StoreClient second(url_, "b", {.on_taken = [] {}});
  }
  proxy.SetAway(false);
  taken.wait(false);
  StoreClient third(url_, "c", {.on_taken = [] {}});  // it does not keep what it has lost
}

TEST_F(PostgresStoresTest, ADatabaseThatCameBackIsItsFrontendsStill) {
  CuttingProxy proxy(PostgresServer::Shared().port());
  std::atomic<bool> taken = false;
  StoreClient frontend(Through(proxy, url_), "a", {.on_taken = [&] { taken = true; }});
  proxy.CutAll();
  const auto locks = [&] {
    return PostgresServer::Query(url_,
                                 "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
                                 "(SELECT oid FROM pg_database WHERE datname = current_database())")
        .Int(0, 0);
  };
  while (locks() != 0) std::this_thread::yield();  // the server has noticed
  while (locks() != 1) std::this_thread::yield();  // and the frontend has taken it again
  EXPECT_FALSE(taken);
}

TEST_F(PostgresStoresTest, ANameWithoutATextInTheDatabaseIsUnknown) {
  StoreClient frontend(url_, "a");
  const std::string name("a\0b", 3);
  EXPECT_THAT(frontend.Get(name).status(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(frontend.Claim(name).status(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(frontend.Create(RequestNamed(name)).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(PostgresStoresTest, FrontendsThatStartAtOnceMakeOneSchema) {
  std::vector<std::thread> starts;
  starts.reserve(4);
  for (int i = 0; i < 4; ++i) starts.emplace_back([&, i] { StoreClient frontend(url_, absl::StrCat(i)); });
  for (std::thread& start : starts) start.join();
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.schema_version").Int(0, 0), 1);
}

absl::Status OpenStatus(const std::string& url) {
  return PostgresStores::Open({.driver = &PostgresServer::Driver(), .url = url}).status();
}

TEST_F(PostgresStoresTest, ANewerSchemaIsUsedOnlyIfItSaysThatItCanBe) {
  { StoreClient frontend(url_, "a"); }
  PostgresServer::Execute(url_, "UPDATE kinora.schema_version SET version = 1000");
  EXPECT_THAT(OpenStatus(url_), IsOk());
  PostgresServer::Execute(url_, "UPDATE kinora.schema_version SET oldest_reader = 1000");
  EXPECT_THAT(OpenStatus(url_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("schema 1000, which this version cannot use")));
}

TEST_F(PostgresStoresTest, ARoleThatMayNotCreateTheSchemaIsToldHow) {
  const std::string role = absl::StrCat("humble", absl::ToUnixMicros(absl::Now()));
  PostgresServer::Execute(url_, absl::StrCat("CREATE ROLE ", role, " LOGIN"));
  const std::string humble = absl::StrReplaceAll(url_, {{"kinora@", role + "@"}});
  EXPECT_THAT(OpenStatus(humble),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("CREATE SCHEMA kinora AUTHORIZATION")));
  PostgresServer::Execute(url_, absl::StrCat("CREATE SCHEMA kinora AUTHORIZATION ", role));
  EXPECT_THAT(OpenStatus(humble), IsOk());
}

}  // namespace
}  // namespace kinora

// The homes of groups, and the frontends that share a database.
#include "server/frontend/postgres/postgres_frontends.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/server/frontend/postgres/store_client.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kBrief = absl::Milliseconds(50);  // a lease that a test lets pass

class PostgresFrontendsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!PostgresServer::IsInstalled()) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = PostgresServer::Shared().NewDatabase();
    client_ = std::make_unique<StoreClient>(url_, "a");
  }
  SharedFrontendRecords& shared() { return client_->stores().shared_frontends(); }
  static FrontendEntry Frontend(const FrontendId& id) {
    return {.id = id, .address = id + ":8470", .peer_address = id + ":8474", .join_address = id + ":8471"};
  }
  void Put(const FrontendEntry& frontend, absl::Duration lease = kLease) {
    ASSERT_THAT(
        WaitForStatus([&](auto done) { client_->stores().frontends().PutFrontend(frontend, lease, std::move(done)); }),
        IsOk());
  }
  std::string Claim(const std::string& group, const FrontendEntry& frontend) {
    const auto home = WaitFor<GroupHome>([&](auto done) { shared().ClaimHome(group, frontend, std::move(done)); });
    return home.ok() ? home->frontend + " at " + home->join_address : home.status().ToString();
  }
  std::string Home(const std::string& group) {
    return WaitFor<GroupHome>([&](auto done) { shared().FindHome(group, std::move(done)); })->frontend;
  }
  std::vector<std::string> Living() {
    std::vector<std::string> living;
    const auto found =
        WaitFor<std::vector<FrontendEntry>>([&](auto done) { shared().LivingFrontends(std::move(done)); });
    for (const FrontendEntry& one : *found)
      living.push_back(one.id + one.address + one.peer_address + one.join_address);
    return living;
  }
  void LetPass(const FrontendId& id) {  // its lease
    while (WaitFor<GroupHome>([&](auto done) { shared().FindHome("of " + id, std::move(done)); })->frontend == id) {
      std::this_thread::yield();
    }
  }

  std::string url_;
  std::unique_ptr<StoreClient> client_;
};

TEST_F(PostgresFrontendsTest, TheFirstToClaimAGroupIsItsHome) {
  Put(Frontend("a"));
  Put(Frontend("b"));
  EXPECT_EQ(Home("g"), "");
  EXPECT_EQ(Claim("g", Frontend("b")), "b at b:8471");
  EXPECT_EQ(Claim("g", Frontend("a")), "b at b:8471");
  EXPECT_EQ(Claim("g", Frontend("b")), "b at b:8471") << "another rank has arrived there";
  EXPECT_EQ(Home("g"), "b");
  EXPECT_EQ(Claim("other", Frontend("a")), "a at a:8471");
}

TEST_F(PostgresFrontendsTest, AHomeThatIsGoneIsReplaced) {
  Put(Frontend("a"));
  Put(Frontend("b"), kBrief);
  EXPECT_EQ(Claim("of b", Frontend("b")), "b at b:8471");
  EXPECT_EQ(Claim("g", Frontend("b")), "b at b:8471");
  LetPass("b");
  EXPECT_EQ(Home("g"), "");
  EXPECT_EQ(Claim("g", Frontend("a")), "a at a:8471");
}

TEST_F(PostgresFrontendsTest, AFrontendThatWasStartedAgainTakesTheGroupsOfItsAddress) {
  Put(Frontend("a"));
  FrontendEntry again = Frontend("a");
  again.id = "a, started again";
  Put(again);
  EXPECT_EQ(Claim("g", Frontend("a")), "a at a:8471");
  EXPECT_EQ(Claim("g", again), "a, started again at a:8471");
}

TEST_F(PostgresFrontendsTest, FrontendsWithoutAnAddressAreNotTakenForOne) {
  Put({.id = "a"});
  Put({.id = "b"});
  EXPECT_EQ(Claim("g", {.id = "a"}), "a at ");
  EXPECT_EQ(Claim("g", {.id = "b"}), "a at ");
}

TEST_F(PostgresFrontendsTest, AGroupThatLeavesHasNoHome) {
  Put(Frontend("a"));
  Put(Frontend("b"));
  EXPECT_EQ(Claim("g", Frontend("b")), "b at b:8471");
  const auto leave = [&](const FrontendId& id) {
    return WaitForStatus([&](auto done) { shared().LeaveHome("g", id, std::move(done)); });
  };
  EXPECT_THAT(leave("a"), IsOk());
  EXPECT_EQ(Home("g"), "b") << "it was not a's";
  EXPECT_THAT(leave("b"), IsOk());
  EXPECT_EQ(Home("g"), "");
}

TEST_F(PostgresFrontendsTest, LivingFrontendsAreKnownWithTheirAddresses) {
  EXPECT_THAT(Living(), IsEmpty());
  Put(Frontend("a"));
  Put(Frontend("b"), kBrief);
  EXPECT_EQ(Claim("of b", Frontend("b")), "b at b:8471");
  LetPass("b");
  EXPECT_THAT(Living(), ElementsAre("aa:8470a:8474a:8471"));
  EXPECT_EQ(Claim("g", Frontend("a")), "a at a:8471");
  EXPECT_THAT(WaitForStatus([&](auto done) { shared().RemoveFrontend("a", std::move(done)); }), IsOk());
  EXPECT_THAT(Living(), IsEmpty());
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.homes WHERE frontend = 'a'").Int(0, 0), 0);
}

// As when frontends are upgraded one after the other, with jobs running.
TEST_F(PostgresFrontendsTest, AnUpgradeDisturbsNoFrontendOfTheVersionBefore) {
  PostgresServer::Execute(url_,
                          "SET search_path = kinora, pg_catalog; DROP TABLE homes; ALTER TABLE frontends "
                          "DROP COLUMN peer_address, DROP COLUMN join_address; "
                          "UPDATE schema_version SET version = 1");
  const auto created = client_->Create(RequestNamed("running"));
  ASSERT_THAT(created, IsOk());
  const auto claimed = client_->Claim(created->video.id());
  ASSERT_THAT(claimed, IsOk());
  StoreClient upgraded(url_, "b");
  EXPECT_FALSE(upgraded.stores().is_new());
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT version FROM kinora.schema_version").Int(0, 0), 2);
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT oldest_reader FROM kinora.schema_version").Int(0, 0), 1);
  EXPECT_THAT(client_->Append(claimed->attempt, "denoise"), IsOk());
  EXPECT_THAT(client_->Finish(claimed->attempt), IsOk());
  PostgresServer::Execute(url_,  // as that version renews its lease
                          "INSERT INTO kinora.frontends (id, address, lease_micros) VALUES ('old', 'old:8470', "
                          "kinora.kinora_now() + 30000000) ON CONFLICT (id) DO UPDATE SET address = excluded.address, "
                          "lease_micros = excluded.lease_micros");
  EXPECT_THAT(Living(), ElementsAre("oldold:8470")) << "it is not called, and no rank is sent there";
  EXPECT_EQ(upgraded.Get(created->video.id())->state(), v1::Video::COMPLETED);
}

TEST_F(PostgresFrontendsTest, OfTwoThatClaimAtOnceOneIsTheHome) {
  Put(Frontend("a"));
  Put(Frontend("b"));
  StoreClient other(url_, "b");
  for (int i = 0; i < 50; ++i) {
    const std::string group = absl::StrCat("g", i);
    std::string at_b;
    std::thread second([&] {
      const auto home = WaitFor<GroupHome>(
          [&](auto done) { other.stores().shared_frontends().ClaimHome(group, Frontend("b"), std::move(done)); });
      at_b = home.ok() ? home->frontend + " at " + home->join_address : home.status().ToString();
    });
    const std::string at_a = Claim(group, Frontend("a"));
    second.join();
    EXPECT_EQ(at_a, at_b);
  }
}

}  // namespace
}  // namespace kinora

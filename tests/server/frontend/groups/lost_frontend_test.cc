// The dispatcher and the runs of other frontends.
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

using LostFrontend = DispatcherTest;

TEST_F(LostFrontend, AnotherFrontendsRunIsTakenOnlyOnceItsLeaseIsOver) {
  const JobId id = Submit();
  queue_.Remove(id);
  const auto other =
      WaitFor<Claimed>([&](auto done) { store_->Claim(id, "another", absl::Seconds(30), std::move(done)); });
  ASSERT_THAT(other, IsOk());
  const auto link = JoinGroup("a");
  SqliteFrontendRecords frontends(store_->file(), clock_);
  FrontendLeaseOptions options{.frontend = {.id = owner_, .address = "here"}, .lease = absl::Seconds(30)};
  options.on_lost_run = [&](const UnfinishedJob& job) { dispatcher_->Recover(job, [](const absl::Status&) {}); };
  options.on_lost_client = [](const JobId&) {};
  FrontendLease lease(frontends, *store_, clock_, options);
  Pass(absl::Seconds(20), {link});
  ASSERT_THAT(WaitFor<Lease>([&](auto done) { store_->Renew(other->attempt, absl::Seconds(30), std::move(done)); }),
              IsOk());
  Pass(absl::Seconds(29), {link});
  Settle();
  EXPECT_TRUE(link->empty());
  while (link->empty()) Pass(absl::Seconds(1), {link});
  EXPECT_EQ(AwaitRun(*link).attempt(), 2);
  lease.Stop();
  store_->Flush();
}

TEST_F(LostFrontend, ARunWhoseLeaseWasRenewedMeanwhileIsNotTaken) {
  const JobId id = Submit();
  queue_.Remove(id);
  const auto other =
      WaitFor<Claimed>([&](auto done) { store_->Claim(id, "another", absl::Seconds(30), std::move(done)); });
  ASSERT_THAT(other, IsOk());
  clock_.Advance(absl::Seconds(31));
  const auto lost = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store_->LostRuns(owner_, std::move(done)); });
  ASSERT_EQ(lost->size(), 1u);
  ASSERT_THAT(WaitFor<Lease>([&](auto done) { store_->Renew(other->attempt, absl::Seconds(30), std::move(done)); }),
              IsOk());
  EXPECT_THAT(WaitForStatus([&](Finished done) { dispatcher_->Recover((*lost)[0], std::move(done)); }), IsOk());
  EXPECT_EQ(queue_.Position(id), 0);
  EXPECT_THAT(WaitForStatus([&](auto done) { store_->Finish(other->attempt, {}, std::move(done)); }), IsOk());
}

}  // namespace
}  // namespace kinora

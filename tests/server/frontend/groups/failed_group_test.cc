// A group that its supervisor starts no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/frontend/groups/dispatcher_fixture.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST_F(DispatcherTest, AGroupWhoseSupervisorGaveUpIsFailedWithItsReasonAndMayBeRestarted) {
  std::vector<std::string> restarted;
  GroupsHealth health;
  dispatcher_->SetHealthListener([&](const GroupsHealth& now) { health = now; });
  const auto restart = [&] {
    return WaitFor<v1::WorkerGroup>([&](auto done) { dispatcher_->RestartGroup("0", std::move(done)); });
  };
  dispatcher_->ProcessEnded("0", "a", "exit status 2");
  EXPECT_THAT(restart(), StatusIs(absl::StatusCode::kNotFound));  // nobody supervises it
  dispatcher_->GiveUp("0");
  const v1::WorkerGroup group = Groups().at(0);
  EXPECT_EQ(group.state(), "failed");
  EXPECT_THAT(group.reason(), HasSubstr("exit status 2; it awaits a change of its files, or `kinora admin restart 0`"));
  EXPECT_TRUE(health.failed);
  EXPECT_THAT(health.absent, HasSubstr("group 0 is failed (its process ended: exit status 2;"));
  dispatcher_->SetRestartListener([&](const std::string& id) {
    restarted.push_back(id);
    return true;
  });
  EXPECT_THAT(restart(), IsOk());
  EXPECT_EQ(restarted, std::vector<std::string>{"0"});
  EXPECT_EQ(Groups().at(0).state(), "lost");
  EXPECT_FALSE(health.failed);
}

}  // namespace
}  // namespace kinora

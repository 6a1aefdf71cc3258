// A group that its supervisor no longer restarts.
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
  EXPECT_THAT(restart(), StatusIs(absl::StatusCode::kNotFound));  // not supervised
  dispatcher_->GiveUp("0");
  const v1::WorkerGroup group = Groups().at(0);
  EXPECT_EQ(group.state(), "failed");
  EXPECT_THAT(group.reason(),
              HasSubstr("exit status 2; it waits for a change of its model files, `kinora admin restart 0`"));
  EXPECT_TRUE(health.failed);
  EXPECT_THAT(health.absent, HasSubstr("group 0 is failed (its process exited: exit status 2;"));
  dispatcher_->SetRestartListener([&](const std::string& id) {
    restarted.push_back(id);
    return true;
  });
  EXPECT_THAT(restart(), IsOk());
  EXPECT_EQ(restarted, std::vector<std::string>{"0"});
  EXPECT_EQ(Groups().at(0).state(), "lost");
  EXPECT_FALSE(health.failed);
}

// Its processes hang before they join, so there has never been a stream.
TEST_F(DispatcherTest, AGroupThatHasNeverJoinedMayBeRestarted) {
  std::vector<std::string> restarted;
  dispatcher_->Supervise("0", "a", "secret");
  dispatcher_->SetRestartListener([&](const std::string& id) {
    if (id == "0") restarted.push_back(id);
    return id == "0";
  });
  const auto restart = [&](const char* id) {
    return WaitFor<v1::WorkerGroup>([&](auto done) { dispatcher_->RestartGroup(id, std::move(done)); });
  };
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::WorkerGroup group, restart("0"));
  EXPECT_EQ(restarted, std::vector<std::string>{"0"});
  EXPECT_EQ(group.id(), "0");
  EXPECT_EQ(group.reason(), "restarted by an administrator");
  EXPECT_THAT(restart("7"), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace kinora

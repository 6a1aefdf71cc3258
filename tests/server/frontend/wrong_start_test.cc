#include "server/frontend/wrong_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <vector>

#include "server/config/config.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class WrongStartTest : public testing::Test {
 protected:
  // A configuration of groups "a" and "b" with this script as the worker program.
  v1::FrontendConfig WithWorker(const std::string& script) {
    const std::string path = directory_.File("worker");
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
    v1::FrontendConfig config = DefaultFrontendConfig();
    config.set_state_directory(directory_.path());
    config.set_worker_binary(path);
    for (const char* id : {"a", "b"}) {
      v1::GroupConfig& group = *config.add_groups();
      group.set_id(id);
      group.mutable_worker()->add_model("m");
    }
    return config;
  }
  // Returns the reported errors after both groups end as given.
  std::vector<absl::Status> AfterEnds(WrongStart& start, const std::string& a, const std::string& b) {
    std::vector<absl::Status> heard;
    start.SetListener([&heard](const absl::Status& why) { heard.push_back(why); });
    start.NoteEnd("a", a);
    EXPECT_THAT(heard, IsEmpty());
    start.NoteEnd("b", b);
    start.NoteEnd("b", b);
    return heard;
  }
  static constexpr char kWrong[] = "echo kinora-worker: no such file >&2; exit 2";
  TemporaryDirectory directory_;
};

TEST_F(WrongStartTest, IsSaidOnceAllGroupsHaveEndedByTheirModelsFiles) {
  WrongStart start(WithWorker(kWrong));
  const auto heard = AfterEnds(start, "exit status 2", "rank 1: exit status 2");
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_THAT(heard[0], StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("groups[0].worker: no such file")));
  absl::Status late;
  start.SetListener([&late](const absl::Status& why) { late = why; });
  EXPECT_EQ(late, heard[0]);
}

TEST_F(WrongStartTest, IsNoneWhereTheConfigurationIsRightOrAGroupHasBeenReadyOrEndedOtherwise) {
  WrongStart right(WithWorker("exit 0"));
  EXPECT_THAT(AfterEnds(right, "exit status 2", "exit status 2"), IsEmpty());
  WrongStart ready(WithWorker(kWrong));
  ready.NoteReady();
  EXPECT_THAT(AfterEnds(ready, "exit status 2", "exit status 2"), IsEmpty());
  WrongStart other(WithWorker(kWrong));
  EXPECT_THAT(AfterEnds(other, "killed by signal 9 (Killed)", "exit status 2"), IsEmpty());
  v1::FrontendConfig awaits = WithWorker(kWrong);
  v1::GroupConfig& far = *awaits.add_groups();
  far.set_id("far");
  far.set_outside(true);
  WrongStart outside(awaits);
  EXPECT_THAT(AfterEnds(outside, "exit status 2", "exit status 2"), IsEmpty());
}

}  // namespace
}  // namespace kinora

#include "server/frontend/jobs/state_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

TEST(StateDirectory, IsPrivateAndBelongsToOneFrontendAtATime) {
  TemporaryDirectory directory;
  const std::string path = directory.File("state");
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const StateDirectory state, StateDirectory::Lock(path));
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_EQ(state.File("jobs.db"), path + "/jobs.db");
    EXPECT_THAT(StateDirectory::Lock(path),
                StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("in use by another frontend")));
  }
  EXPECT_THAT(StateDirectory::Lock(path), IsOk());
}

}  // namespace
}  // namespace kinora

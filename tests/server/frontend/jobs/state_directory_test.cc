#include "server/frontend/jobs/state_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in use by another frontend")));
  }
  EXPECT_THAT(StateDirectory::Lock(path), IsOk());
}

absl::Status Lock(const std::string& path) { return StateDirectory::Lock(path).status(); }

TEST(StateDirectory, OneThatOthersMayUseIsRefusedWithWhatToDo) {
  TemporaryDirectory directory;
  const std::string path = directory.File("state");
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  for (const mode_t mode : {0755, 0770, 0701, 02710, 01777}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    for (const absl::Status& status : {Lock(path), StateDirectory::Check(path)}) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr(path), HasSubstr("chmod 0700"), HasSubstr(path + "/kinora"))))
          << std::oct << mode;
    }
    EXPECT_THAT(Lock(path + "/kinora"), IsOk());  // as the message suggests
  }
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  EXPECT_THAT(Lock(path), IsOk());
}

TEST(StateDirectory, OneOfAnotherUserIsRefused) {
  if (geteuid() != 0) {
    EXPECT_THAT(Lock("/"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("belongs to user 0")));
    return;
  }
  TemporaryDirectory directory;
  ASSERT_EQ(chown(directory.path().c_str(), 65534, 65534), 0);
  for (const absl::Status& status : {Lock(directory.path()), StateDirectory::Check(directory.path())}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("belongs to user 65534"), HasSubstr("chown"))));
  }
}

// Files that were created under another umask or restored from a backup.
TEST(StateDirectory, WhatLiesInItFollows) {
  TemporaryDirectory directory;
  WriteFile(directory.File("jobs.db"), "");
  ASSERT_EQ(chmod(directory.File("jobs.db").c_str(), 0666), 0);
  ASSERT_EQ(mkdir(directory.File("artifacts").c_str(), 0700), 0);
  ASSERT_EQ(chmod(directory.File("artifacts").c_str(), 0777), 0);
  EXPECT_THAT(Lock(directory.path()), IsOk());
  for (const auto& [name, mode] : {std::pair{"jobs.db", 0600u}, {"artifacts", 0700u}}) {
    struct stat info;
    ASSERT_EQ(stat(directory.File(name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode) << name;
  }
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(directory.File("jobs.db").c_str(), 65534, 65534), 0);
  EXPECT_THAT(Lock(directory.path()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("jobs.db belongs to")));
}

TEST(StateDirectory, CheckMakesNothingAndSaysWhatWouldBeInTheWay) {
  TemporaryDirectory directory;
  EXPECT_THAT(StateDirectory::Check(directory.File("state")), IsOk());
  EXPECT_FALSE(std::filesystem::exists(directory.File("state")));
  EXPECT_THAT(StateDirectory::Check(directory.File("no/state")), StatusIs(absl::StatusCode::kNotFound));
  WriteFile(directory.File("file"), "");
  EXPECT_THAT(StateDirectory::Check(directory.File("file")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not a directory")));
}

}  // namespace
}  // namespace kinora

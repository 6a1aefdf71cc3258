// How an external worker finds its frontend.
#include "server/worker/join_way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(AddressToward, IsTheOneThatPacketsLeaveFrom) {
  EXPECT_EQ(*AddressToward("unix:/x/worker.sock"), "127.0.0.1");
  EXPECT_EQ(*AddressToward("127.0.0.1:8471"), "127.0.0.1");
  EXPECT_THAT(AddressToward("no port"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("frontend: ")));
}

TEST(JoinTargetOf, ReadsOneTokenThatIsPrivate) {
  TemporaryDirectory directory;
  v1::WorkerConfig config;
  config.set_frontend("frontend:8471");
  EXPECT_EQ(JoinTargetOf(config)->token, "");
  config.set_token_file(directory.File("token"));
  EXPECT_THAT(JoinTargetOf(config), StatusIs(absl::StatusCode::kNotFound, HasSubstr("token_file: ")));
  WriteFile(directory.File("token"), "  the token of a worker\n");
  ASSERT_EQ(chmod(directory.File("token").c_str(), 0604), 0);
  EXPECT_THAT(JoinTargetOf(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chmod o=")));
  ASSERT_EQ(chmod(directory.File("token").c_str(), 0600), 0);
  EXPECT_EQ(JoinTargetOf(config)->token, "the token of a worker");
  WriteFile(directory.File("token"), "one\ntwo\n");
  EXPECT_THAT(JoinTargetOf(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("exactly one token, on one line")));
}

}  // namespace
}  // namespace kinora

#include "server/frontend/descriptor_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/config.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(DescriptorBudget, GivesConnectionsWhatTheOthersLeave) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto much, DivideDescriptors(20'000, config));
  EXPECT_EQ(much.connections, 1000);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto usual, DivideDescriptors(1024, config));
  EXPECT_LT(usual.connections, 1000);
  EXPECT_LE(usual.process + usual.store + usual.pages + usual.admin + usual.workers + 2 * usual.connections, 1024);
  EXPECT_THAT(usual.ToString(), HasSubstr(absl::StrCat("for ", usual.connections, " connections")));
  config.add_groups()->set_processes(8);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto workers, DivideDescriptors(1024, config));
  EXPECT_LT(workers.connections, usual.connections);
  config.set_peer_address("127.0.0.1:8474");
  KINORA_ASSERT_OK_AND_ASSIGN(const auto peers, DivideDescriptors(1024, config));
  EXPECT_EQ(peers.connections, workers.connections - 128) << "each has two descriptors";
}

TEST(DescriptorBudget, TooFewAreRefusedWithWhatIsNeeded) {
  const v1::FrontendConfig config = DefaultFrontendConfig();
  EXPECT_THAT(DivideDescriptors(128, config),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ulimit -n: 128 open files are too few; 296")));
  EXPECT_THAT(DivideDescriptors(295, config), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(DivideDescriptors(296, config), IsOk());
}

}  // namespace
}  // namespace kinora

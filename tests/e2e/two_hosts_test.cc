// The example of docs/groups.md: a group whose ranks are on two hosts, and the recovery of its job when a cable between
// them is disconnected.
#include "tests/e2e/two_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/e2e/launcher.h"
#include "tests/e2e/tiny_model.h"
#include "tests/testing/certificates.h"

namespace kinora {
namespace {

using testing::Contains;
using testing::HasSubstr;

class TwoHostsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto hosts = TwoHosts::Make();
    if (!hosts.ok()) GTEST_SKIP() << "no network namespaces here: " << hosts.status().message();
    hosts_ = *std::move(hosts);
    Write("frontend.pem", frontend_.certificate);
    Write("frontend-key.pem", frontend_.key);
    Write("worker.pem", worker_.certificate);
    Write("worker-key.pem", worker_.key);
  }
  void TearDown() override {
    for (const auto& rank : ranks_) rank->Signal(SIGTERM);  // all at once
    ranks_.clear();
    if (hosts_ != nullptr) server_.TakeFrontend();
  }

  // Starts the frontend and rank 0 on host 0, and rank 1 on host 1. `worker_flags` apply to both ranks.
  void Start(const std::vector<std::string>& frontend_flags, const std::vector<std::string>& worker_flags) {
    Write("kinora.textproto", "groups { id: 'big' processes: 2 outside: true }\n");
    std::vector<std::string> flags = {"--config=" + directory_.File("kinora.textproto"),
                                      "--join-address=10.83.1.1:8471",
                                      "--join-tls-certificate-file=" + directory_.File("frontend.pem"),
                                      "--join-tls-key-file=" + directory_.File("frontend-key.pem"),
                                      "--join-tls-client-ca-file=" + directory_.File("worker.pem")};
    flags.insert(flags.end(), frontend_flags.begin(), frontend_flags.end());
    server_.SetHost([this](const std::vector<std::string>& command) { return hosts_->On(0, command); });
    server_.Start(/*ready=*/false, flags);
    for (const int rank : {0, 1}) {
      std::vector<std::string> command = RankCommand(rank);
      command.insert(command.end(), worker_flags.begin(), worker_flags.end());
      ranks_.push_back(std::make_unique<Launcher>(hosts_->On(rank, command)));
    }
    server_.AwaitReadyGroup();
  }
  std::vector<std::string> RankCommand(int rank) const {
    std::vector<std::string> command = {KINORA_WORKER_BINARY,
                                        "--group=big",
                                        "--frontend=10.83.1.1:8471",
                                        "--tls-ca-file=" + directory_.File("frontend.pem"),
                                        "--tls-certificate-file=" + directory_.File("worker.pem"),
                                        "--tls-key-file=" + directory_.File("worker-key.pem")};
    for (const std::string& flag : TokenRankFlags(rank)) command.push_back(flag);
    return command;
  }
  std::vector<std::string> Generate(const std::string& file, int steps) const {
    return server_.Generate(kPrompt, directory_.File(file), ClipFlags(steps));
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.File(name)) << text;
    KINORA_CHECK_EQ(chmod(directory_.File(name).c_str(), 0600), 0);
  }
  void ExpectTheJobSurvives(const std::string& cable) {
    Process client(Generate("served.mp4", kManySteps));
    ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
    hosts_->SetLink(cable, false);
    EXPECT_NE(server_.frontend().AwaitLine("event=group_lost"), "");
    hosts_->SetLink(cable, true);
    EXPECT_EQ(client.Wait(), 0) << client.Err();
    EXPECT_THAT(client.Err(), HasSubstr("QUEUED again"));
    EXPECT_EQ(ReadFile(directory_.File("served.mp4")), Rendered(directory_, kManySteps));
    for (const auto& rank : ranks_) EXPECT_THAT(rank->statuses(), Contains(Launcher::kStartAgain)) << rank->Log();
  }

  const TestCertificate frontend_ = MakeCertificate({.name = "frontend", .address = "10.83.1.1"});
  const TestCertificate worker_ = MakeCertificate({.name = "worker"});
  TemporaryDirectory directory_;
  std::unique_ptr<TwoHosts> hosts_;
  Server server_{directory_, {.binary = KINORA_WORKER_BINARY, .flags = {}}};
  std::vector<std::unique_ptr<Launcher>> ranks_;
};

TEST_F(TwoHostsTest, MakeTheFileOfOneRank) {
  Start({}, {});
  ASSERT_EQ(RunToEnd(Generate("served.mp4", 4)).status, 0);
  EXPECT_EQ(ReadFile(directory_.File("served.mp4")), Rendered(directory_, 4));
}

// Both ranks still reach the frontend, but wait for each other in a collective.
TEST_F(TwoHostsTest, AJobSurvivesACutBetweenTheRanks) {
  Start({"--worker-step-floor-seconds=5"}, {"--data-interface=data"});
  ExpectTheJobSurvives("data");
}

TEST_F(TwoHostsTest, AJobSurvivesAHostThatIsCutOff) {
  Start({"--worker-heartbeat-timeout-seconds=3"}, {});
  ExpectTheJobSurvives("control");
}

}  // namespace
}  // namespace kinora

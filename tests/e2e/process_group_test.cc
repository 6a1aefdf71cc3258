// A group of processes behind the frontend: the clip that they make together, and recovery when one of them fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr int kCancelled = 4;

// On a slow device, tests only the first case.
template <typename T>
std::vector<T> Some(std::vector<T> all) {
  if (Device() != "cpu") all.resize(1);
  return all;
}

// Configures a group of `processes` processes with one rank each.
std::vector<std::string> GroupFlags(const TemporaryDirectory& directory, const std::string& ranks, int processes) {
  const std::string path = directory.File("kinora.textproto");
  std::ofstream(path) << "groups { id: 'pair' processes: " << processes << " worker { model: '" << kModel
                      << "' model: '" << kText << "' model: 'kind=dev' model_id: 'tiny' device: '" << Device()
                      << "' precision: 'f32' "
                      << "threads: 2 http_address: '' ranks: '" << ranks << "' } }\n";
  return {absl::StrCat("--config=", path)};
}

class ProcessGroup : public testing::Test {
 protected:
  void Start(const std::string& ranks, int processes, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = GroupFlags(directory_, ranks, processes);
    all.insert(all.end(), flags.begin(), flags.end());
    server_.Start(true, all);
  }
  std::vector<std::string> Generate(const std::string& file, int steps) const {
    return server_.Generate(kPrompt, directory_.File(file), ClipFlags(steps));
  }
  std::string Made(const std::string& file) const { return ReadFile(directory_.File(file)); }

  TemporaryDirectory directory_;
  Server server_{directory_, {.binary = KINORA_WORKER_BINARY, .flags = {}}};
};

TEST_F(ProcessGroup, MakesTheFileOfOneRankAndEndsACancelledRunTogether) {
  for (const auto& [ranks, processes] :
       Some<std::pair<const char*, int>>({{"tokens=2", 2}, {"guidance=2,tokens=2", 4}})) {
    Start(ranks, processes);
    ASSERT_EQ(RunToEnd(Generate("served.mp4", 4)).status, 0);
    EXPECT_EQ(Made("served.mp4"), Rendered(directory_, 4)) << ranks;
    Process client(Generate("cancelled.mp4", 999));
    ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
    client.Signal(SIGINT);
    EXPECT_EQ(client.Wait(), kCancelled);
    ASSERT_EQ(RunToEnd(Generate("again.mp4", 4)).status, 0);
    EXPECT_EQ(Made("again.mp4"), Rendered(directory_, 4)) << ranks;
  }
}

TEST_F(ProcessGroup, PlansWithWhatRankZeroReadsAndADamagedFileEndsTheRunOfAllRanksAlike) {
  const std::string data = KINORA_SOURCE_DIR "/tests/server/decode/data/";
  WriteFile(directory_.File("damaged.mp4"), ReadFile(data + "clip.mp4").substr(0, 600));
  Start("tokens=2", 2);
  const auto show = [&](const std::string& file, const std::string& input) {
    std::vector<std::string> command = Generate(file, 2);
    command.insert(command.end(), {"--image", input});
    return RunToEnd(command);
  };
  for (const char* name : {"clip.mp4", "camera.png"}) {
    const Result shown = show("served.mp4", data + name);
    ASSERT_EQ(shown.status, 0) << shown.err;
    EXPECT_EQ(Made("served.mp4"), Rendered(directory_, 2, {"--image", data + name})) << name;
    const pid_t worker = server_.WorkerPid();
    const Result damaged = show("none.mp4", directory_.File("damaged.mp4"));
    EXPECT_EQ(damaged.status, 3) << damaged.err;
    EXPECT_THAT(damaged.err, HasSubstr("input "));
    EXPECT_EQ(server_.WorkerPid(), worker);
  }
}

// The other ranks know only the sound's dimensions.
TEST_F(ProcessGroup, ASoundThatRankZeroRefusesEndsTheRunOfAllRanksAlike) {
  const auto little = [](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
    return text;
  };
  constexpr uint32_t kChannels = 6, kRate = 16000, kBytes = 2 * kChannels * kRate;  // one second
  WriteFile(directory_.File("six.wav"), "RIFF" + little(36 + kBytes, 4) + "WAVEfmt " + little(16, 4) + little(1, 2) +
                                            little(kChannels, 2) + little(kRate, 4) + little(2 * kChannels * kRate, 4) +
                                            little(2 * kChannels, 2) + little(16, 2) + "data" + little(kBytes, 4) +
                                            std::string(kBytes, '\x10'));
  Start("tokens=2", 2);
  std::vector<std::string> command = Generate("none.mp4", 2);
  command.insert(command.end(), {"--audio", directory_.File("six.wav")});
  const Result refused = RunToEnd(command);
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("6 channels; this model takes 2"));
  ASSERT_EQ(RunToEnd(Generate("served.mp4", 2)).status, 0);
}

TEST_F(ProcessGroup, ATraceHasATrackOfEachProcess) {
  Start("tokens=2", 2);
  std::vector<std::string> generate = Generate("served.mp4", 4);
  generate.emplace_back("--trace");
  const Result outcome = RunToEnd(generate);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::map<int, std::set<std::string>> spans;  // rank -> names
  std::map<int, int> steps;
  std::map<int, std::pair<double, double>> denoising;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    if (entry.path().filename().string().find("trace.json") == std::string::npos) continue;
    const auto trace = nlohmann::json::parse(ReadFile(entry.path()));
    for (const auto& event : trace["traceEvents"]) {
      const int rank = event["pid"].get<int>() - 1;
      spans[rank].insert(event["name"]);
      if (event["name"] == "step") ++steps[rank];
      if (event["name"] == "denoise") denoising[rank] = {event["ts"], event["dur"]};
    }
  }
  ASSERT_EQ(spans.size(), 2u);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(spans[rank], testing::IsSupersetOf({"process_name", "thread_name", "encode", "denoise"})) << rank;
    EXPECT_EQ(steps[rank], 4);
    if (Device() == "cpu") {
      EXPECT_THAT(spans[rank], testing::IsSupersetOf({"Matmul", "wait"})) << rank;
    }
  }
  // They denoised at the same time.
  EXPECT_LT(std::abs(denoising[0].first - denoising[1].first), denoising[0].second);
}

TEST_F(ProcessGroup, ARankThatIsKilledOrStoppedLosesTheGroupAndTheJobEndsInTheSameFile) {
  Start("tokens=2", 2, {absl::StrCat("--worker-heartbeat-timeout-seconds=", Device() == "cpu" ? 2 : 15)});
  const std::string expected = Rendered(directory_, kManySteps);
  for (const auto& [rank, signal] : Some<std::pair<int, int>>({{1, SIGKILL}, {0, SIGKILL}, {1, SIGSTOP}})) {
    Process client(Generate("served.mp4", kManySteps));
    ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
    const pid_t other = server_.WorkerPid(1 - rank);
    ASSERT_EQ(kill(server_.WorkerPid(rank), signal), 0);
    EXPECT_EQ(client.Wait(), 0) << client.Err();
    EXPECT_THAT(client.Err(), HasSubstr("QUEUED again"));
    EXPECT_EQ(Made("served.mp4"), expected) << "rank " << rank << ", signal " << signal;
    EXPECT_EQ(kill(other, 0), -1) << "it lived on without its peer";
  }
}

TEST_F(ProcessGroup, LeavesNoProcessBehindWhenItsFrontendIsKilled) {
  Start("tokens=2", 2);
  Process client(Generate("served.mp4", kManySteps));
  ASSERT_NE(client.AwaitLine("denoise"), "") << client.Err();
  server_.frontend().Signal(SIGKILL);
  server_.frontend().Wait();
  EXPECT_TRUE(server_.frontend().AwaitEndOfOutput());  // the ranks have ended too
  server_.Start(false, GroupFlags(directory_, "tokens=2", 2));
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  EXPECT_EQ(Made("served.mp4"), Rendered(directory_, kManySteps));
}

TEST_F(ProcessGroup, AMeshOfAnotherSizeIsRefusedWithThoseThatWork) {
  server_.Start(false, GroupFlags(directory_, "tokens=2", 4));
  const std::string line = server_.frontend().AwaitLine("worker_leaves");
  EXPECT_THAT(line, HasSubstr("is 2 ranks, but the group has 4 processes"));
  EXPECT_THAT(line, HasSubstr("guidance=2,tokens=2"));
}

TEST_F(ProcessGroup, RanksOfOneProcessHaveOneDevice) {
  if (Device() == "cpu") GTEST_SKIP() << "where they are threads";
  server_.Start(false, GroupFlags(directory_, "tokens=2", 1));
  EXPECT_THAT(server_.frontend().AwaitLine("worker_leaves"),
              HasSubstr("ranks: tokens=2 on cuda: each process has one device; set the group's `processes: 2`"));
}

}  // namespace
}  // namespace kinora

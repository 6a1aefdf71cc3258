// LoRAs added to and removed from a worker's folder while it serves. The clips must equal kinora-render's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/common/sha256.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr char kStyle[] = KINORA_SOURCE_DIR "/tests/golden/data/lora-tiny-style.safetensors";
constexpr char kDetail[] = KINORA_SOURCE_DIR "/tests/golden/data/lora-tiny-detail.safetensors";

class LoraFolderServed : public TinyModel {
 protected:
  LoraFolderServed() { std::filesystem::create_directory(directory_.File("loras")); }

  void Start() { server_.Start(true, {absl::StrCat("--worker-lora-folder=", directory_.File("loras"))}); }
  // Places the file by an atomic rename.
  void Put(const std::string& from, const std::string& id) const {
    WriteFile(directory_.File("loras/next"), ReadFile(from));
    std::filesystem::rename(directory_.File("loras/next"), File(id));
  }
  std::string File(const std::string& id) const { return directory_.File("loras/" + id + ".safetensors"); }
  // Waits until clients see the LoRA's digest; an empty `file` waits until it is gone.
  static void AwaitListed(const Server& server, const std::string& id, const std::string& file) {
    const std::string digest = file.empty() ? "" : "sha256:" + Sha256Hex(ReadFile(file));
    const absl::Time limit = absl::Now() + absl::Minutes(2);
    std::string listed = "?";
    while (listed != digest && absl::Now() < limit) {
      const nlohmann::json models = server.Json({"models"});
      listed = models["digests"].value("lora/" + id, "");
    }
    EXPECT_EQ(listed, digest);
  }
  Result Clip(const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> flags = ClipFlags(2);
    flags.insert(flags.end(), more.begin(), more.end());
    return RunToEnd(server_.Generate(kPrompt, directory_.File(file), flags));
  }
  // Returns the states of all jobs, newest first.
  std::vector<std::string> States() {
    std::vector<std::string> states;
    for (const absl::string_view line : absl::StrSplit(server_.Run({"list", "--json"}).out, '\n', absl::SkipEmpty())) {
      states.push_back(nlohmann::json::parse(line)["state"]);
    }
    return states;
  }
  std::string Rendered(const std::string& lora) const {
    return kinora::Rendered(directory_, 2, {"--model", "lora=style:" + lora, "--lora=style:0.5"});
  }
};

TEST_F(LoraFolderServed, AFileThatIsAddedReplacedAndTakenAwayCountsForTheJobsThatFollow) {
  Start();
  EXPECT_TRUE(server_.Json({"models"})["loras"].empty());
  EXPECT_EQ(Clip("none.mp4", {"--lora=style"}).status, 2);
  const std::string whole = ReadFile(kStyle);
  WriteFile(File("style"), whole.substr(0, whole.size() / 2));
  ASSERT_NE(server_.frontend().AwaitLine("event=lora_refused"), "");
  WriteFile(File("style"), whole);
  AwaitListed(server_, "style", kStyle);
  EXPECT_EQ(server_.Json({"models"})["loras"][0], "style");
  const Result styled = Clip("styled.mp4", {"--lora=style:0.5"});
  ASSERT_EQ(styled.status, 0) << styled.err;
  EXPECT_EQ(ReadFile(directory_.File("styled.mp4")), Rendered(kStyle));

  Put(kDetail, "style");
  AwaitListed(server_, "style", kDetail);
  const Result detailed = Clip("detailed.mp4", {"--lora=style:0.5"});
  ASSERT_EQ(detailed.status, 0) << detailed.err;
  EXPECT_EQ(ReadFile(directory_.File("detailed.mp4")), Rendered(kDetail));
  const std::string jobs = server_.Run({"list", "--json"}).out;  // one line per job, newest first
  const nlohmann::json job = nlohmann::json::parse(jobs.substr(0, jobs.find('\n')));
  EXPECT_EQ(job["effective"]["loras"][0]["digest"], "sha256:" + Sha256Hex(ReadFile(kDetail)));
  EXPECT_EQ(job["resolved"]["digests"]["lora/style"], "sha256:" + Sha256Hex(ReadFile(kDetail)));

  std::filesystem::remove(File("style"));
  AwaitListed(server_, "style", "");
  EXPECT_EQ(Clip("none.mp4", {"--lora=style"}).status, 2);
}

// A job accepted with one file must not run with another.
TEST_F(LoraFolderServed, AJobWhoseFileWasReplacedWhileItWaitedFailsAndSaysSoAndOneThatRunsGoesOn) {
  Put(kStyle, "style");
  Start();
  const std::vector<std::string> with = {"--lora=style:0.5"};
  std::vector<std::string> flags = ClipFlags(4 * kManySteps);  // longer than two scans of the folder
  flags.push_back("--lora=style:0.5");
  Process running(server_.Generate(kPrompt, directory_.File("long.mp4"), flags));
  ASSERT_NE(running.AwaitLine("denoise"), "") << running.Err();
  flags[1] = "--steps=2";
  const std::string waits = server_.Create(kPrompt, flags);
  Put(kDetail, "style");
  AwaitListed(server_, "style", kDetail);
  EXPECT_EQ(States(), (std::vector<std::string>{"QUEUED", "RUNNING"}));
  EXPECT_EQ(running.Wait(), 0) << running.Err();
  server_.Run({"watch", waits});
  const nlohmann::json failed = server_.Json({"get", waits});
  EXPECT_EQ(failed["state"], "FAILED");
  EXPECT_EQ(failed["error"]["code"], 9) << failed["error"];
  EXPECT_THAT(failed["error"]["message"].get<std::string>(),
              HasSubstr("loras[0].digest: the file of style is sha256:"));
  const Result next = Clip("next.mp4", with);
  ASSERT_EQ(next.status, 0) << next.err;
  EXPECT_EQ(ReadFile(directory_.File("next.mp4")), Rendered(kDetail));
}

TEST_F(LoraFolderServed, EveryRankTakesTheFileThatIsMeant) {
  Put(kStyle, "style");
  WriteFile(directory_.File("config"),
            absl::StrCat("groups { id: \"pair\" processes: 2 worker { ranks: \"tokens=2\" model: \"", kModel,
                         "\" model: \"", kText, "\" model: \"kind=dev\" model_id: \"tiny\" device: \"cpu\" precision: ",
                         "\"f32\" threads: 2 lora_folder: \"", directory_.File("loras"), "\" } }\n"));
  Server pair(directory_, {.binary = KINORA_WORKER_BINARY, .flags = {"--config=" + directory_.File("config")}});
  pair.Start();
  std::vector<std::string> flags = ClipFlags(2);
  flags.push_back("--lora=style:0.5");
  Result made = RunToEnd(pair.Generate(kPrompt, directory_.File("styled.mp4"), flags));
  ASSERT_EQ(made.status, 0) << made.err << pair.frontend().Err();
  EXPECT_EQ(ReadFile(directory_.File("styled.mp4")), Rendered(kStyle));
  Put(kDetail, "style");
  AwaitListed(pair, "style", kDetail);
  made = RunToEnd(pair.Generate(kPrompt, directory_.File("detailed.mp4"), flags));
  ASSERT_EQ(made.status, 0) << made.err << pair.frontend().Err();
  EXPECT_EQ(ReadFile(directory_.File("detailed.mp4")), Rendered(kDetail));
}

// The second id refers to the same weights as the first; all ranks must agree that nothing changes.
TEST_F(LoraFolderServed, RanksAgreeThatOneFileUnderTwoIdsIsOneSetOfWeights) {
  for (const char* name : {"s.safetensors", "t.safetensors"}) WriteFile(directory_.File(name), ReadFile(kStyle));
  WriteFile(directory_.File("config"),
            absl::StrCat("groups { id: \"pair\" processes: 2 worker { ranks: \"tokens=2\" model: \"", kModel,
                         "\" model: \"", kText, "\" model: \"kind=dev\" model: \"lora=s:",
                         directory_.File("s.safetensors"), "\" model: \"lora=t:", directory_.File("t.safetensors"),
                         "\" model_id: \"tiny\" device: \"cpu\" precision: \"f32\" threads: 2 } }\n"));
  Server pair(directory_, {.binary = KINORA_WORKER_BINARY, .flags = {"--config=" + directory_.File("config")}});
  pair.Start();
  const std::string rendered = Rendered(kStyle);
  for (const char* lora : {"--lora=s:0.5", "--lora=t:0.5", "--lora=s:0.5"}) {
    std::vector<std::string> flags = ClipFlags(2);
    flags.emplace_back(lora);
    const pid_t worker = pair.WorkerPid(1);
    const Result made = RunToEnd(pair.Generate(kPrompt, directory_.File("made.mp4"), flags));
    EXPECT_EQ(pair.WorkerPid(1), worker) << "the group was lost, and the job run again: " << pair.frontend().Err();
    ASSERT_EQ(made.status, 0) << made.err << pair.frontend().Err();
    EXPECT_EQ(ReadFile(directory_.File("made.mp4")), rendered) << lora;
  }
}

}  // namespace
}  // namespace kinora

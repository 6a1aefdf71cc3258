// `kinora` before and after a job: servers that are not running yet, missing prompts, and output files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/e2e/scripted_server.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

using Client = ScriptedServer;

TEST_F(Client, AForgottenPromptIsRefusedAndAnExplicitlyEmptyOneIsNot) {
  server_.Start();
  std::ofstream(directory_.File("empty.txt")) << "\n";
  std::ofstream(directory_.File("request.json")) << "{\"width\": 64}";
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{}, "kinora: PROMPT: is missing; describe the clip, or use --prompt \"\""},
      {{""}, "kinora: PROMPT: is empty"},
      {{"--prompt-file=" + directory_.File("empty.txt")}, "empty.txt: is empty"},
      {{"--request=" + directory_.File("request.json")}, "request.json: prompt: is empty"}};
  for (const auto& [flags, says] : mistakes) {
    for (const char* command : {"generate", "create"}) {
      std::vector<std::string> arguments = {command};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      const Result result = server_.Run(arguments);
      EXPECT_EQ(result.status, kRefused) << command;
      EXPECT_THAT(result.err, HasSubstr(says)) << command;
    }
  }
  EXPECT_EQ(server_.Run({"list"}).out, "");
  EXPECT_EQ(server_.Run({"estimate"}).status, 0);  // the estimate does not depend on the prompt
  EXPECT_EQ(server_.Run({"create", "--prompt="}).status, 0);
}

TEST_F(Client, NoServerExitsFive) {
  EXPECT_EQ(server_.Run({"list"}).status, kUnreachable);
  for (const char* patience : {"--no-wait", "--reconnect=0"}) {
    const Result result = RunToEnd(server_.Generate("x", directory_.File("x.mp4"), {patience}));
    EXPECT_EQ(result.status, kUnreachable);
    EXPECT_THAT(result.err, Not(HasSubstr("waiting")));
    EXPECT_EQ(server_.Run({"models", patience}).status, kUnreachable);
  }
  const Result waited = server_.Run({"create", "x", "--reconnect=300ms"});
  EXPECT_EQ(waited.status, kUnreachable);
  EXPECT_THAT(waited.err, AllOf(HasSubstr("waiting for the server at unix:"), HasSubstr(", 300ms at most: "),
                                HasSubstr("kinora: unreachable")));
}

// As when a block of commands is pasted: the server and its clients start at the same time.
TEST_F(Client, ClientsThatAreStartedBeforeTheServerWaitForItAndItsModel) {
  Process generate(server_.Generate("x", directory_.File("x.mp4"))), models(server_.Client({"models", "--json"})),
      create(server_.Client({"create", "x", "--json"})), estimate(server_.Client({"estimate", "x", "--json"}));
  for (Process* client : {&generate, &models, &create, &estimate}) {
    EXPECT_NE(client->AwaitLine("waiting for the server at unix:"), "") << client->Err();
  }
  server_.Start(false);
  for (Process* client : {&generate, &models, &create, &estimate}) {
    EXPECT_EQ(client->Wait(), 0) << client->Err();
    client->AwaitEndOfOutput();
  }
  EXPECT_EQ(ReadFile(directory_.File("x.mp4")).substr(4, 4), "ftyp");
  EXPECT_EQ(nlohmann::json::parse(models.Out())["id"], "scripted");
}

TEST_F(Client, CtrlCWhileTheServerIsAwaitedLeavesNoJob) {
  Process client(server_.Generate("x", directory_.File("x.mp4")));
  ASSERT_NE(client.AwaitLine("waiting for the server"), "");
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kUnreachable);
  EXPECT_NE(client.AwaitLine("left; no job was started"), "") << client.Err();
}

TEST_F(Client, TheEndingOfTheOutputChoosesTheContainer) {
  server_.Start();
  for (const auto& [name, container] :
       {std::pair{"a.mp4", "MP4"}, std::pair{"b.WEBM", "WEBM"}, std::pair{"d.zip", "PNG_FRAMES"}}) {
    const std::string path = directory_.File(name);
    const Result result = RunToEnd(server_.Generate("x", path, {"--json"}));
    ASSERT_EQ(result.status, 0) << result.err;
    const auto answer = nlohmann::json::parse(result.out);
    EXPECT_EQ(answer["video"]["output"]["container"], container);
    EXPECT_EQ(answer["files"][0], path);
    EXPECT_NE(ReadFile(path), "");
  }
  const Result silent = RunToEnd(server_.Generate("x", directory_.File("c.wav")));  // the scripted model makes no sound
  EXPECT_EQ(silent.status, kFailed);
  EXPECT_THAT(silent.err, HasSubstr("a WAV file needs sound"));
}

TEST_F(Client, AnOutputThatNamesNoContainerOrAnotherIsRefusedBeforeItIsSent) {
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"-o", "star.gif"}, "kinora: --output star.gif: the ending must be .mp4, .webm, .wav or .zip"},
      {{"-o", "star"}, "--output star: the ending must be"},
      {{"-o", ""}, "--output: is empty"},
      {{"-o", "star.webm", "--container=mp4"}, "--output star.webm: selects WEBM, but --container is MP4"},
      {{"-o", "-", "--json"}, "--json: cannot be combined with --output -"},
      {{"-o", "-", "--open"}, "--open: cannot be combined with --output -"}};
  for (const auto& [flags, says] : mistakes) {
    std::vector<std::string> arguments = {"generate", "x"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Result result = server_.Run(arguments);  // there is no server, and none is contacted
    EXPECT_EQ(result.status, kRefused);
    EXPECT_THAT(result.err, AllOf(HasSubstr(says), Not(HasSubstr("waiting"))));
  }
}

TEST_F(Client, AFolderGetsTheFramesAndAFileIsAlsoStandardOutput) {
  server_.Start();
  const std::string zip = directory_.File("frames.zip"), folder = directory_.File("not/yet/there") + "/";
  ASSERT_EQ(RunToEnd(server_.Generate("x", zip)).status, 0);
  const Result framed = RunToEnd(server_.Generate("x", folder));
  ASSERT_EQ(framed.status, 0) << framed.err;
  EXPECT_THAT(framed.out, HasSubstr(folder));
  for (const char* frame : {"000000.png", "000008.png"})
    EXPECT_EQ(ReadFile(folder + frame).substr(1, 3), "PNG") << frame;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 9);  // the frames and nothing else

  const Result written = server_.Run({"generate", "x", "--seed=7", "-o", "-", "--container=png_frames"});
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(written.out, ReadFile(zip));
  EXPECT_THAT(written.err, HasSubstr("-  64x64"));
}

TEST_F(Client, AFolderOfOthersFilesIsRefusedBeforeTheRenderAndAnOlderClipIsReplaced) {
  server_.Start();
  const std::string folder = directory_.File("frames") + "/";
  ASSERT_EQ(RunToEnd(server_.Generate("x", folder, {"--frames=17"})).status, 0);
  ASSERT_EQ(RunToEnd(server_.Generate("x", folder, {"--frames=9"})).status, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 9);  // none of the older clip
  std::ofstream(folder + "holiday.png") << "mine";
  const Result refused = RunToEnd(server_.Generate("x", folder));
  EXPECT_EQ(refused.status, kRefused);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--output " + folder), HasSubstr("holds holiday.png")));
  const std::string jobs = server_.Run({"list", "--json"}).out;
  EXPECT_EQ(std::count(jobs.begin(), jobs.end(), '\n'), 2);
}

// Nothing is rendered for a path that cannot be written. Missing folders are created.
TEST_F(Client, AnOutputThatCannotBeWrittenIsMetBeforeTheRender) {
  server_.Start();
  std::ofstream(directory_.File("file")) << "x";
  for (const std::string& path : {directory_.File("file") + "/x.mp4", std::string("/proc/no/x.mp4"),
                                  directory_.File(std::string(300, 'x') + ".mp4")}) {
    const Result result = RunToEnd(server_.Generate("x", path));
    EXPECT_EQ(result.status, path.size() > 300 ? kRefused : 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(path.substr(0, path.rfind('/'))));
  }
  EXPECT_EQ(server_.Run({"list"}).out, "");
  const std::string path = directory_.File("a/b/x.mp4");
  const Result result = RunToEnd(server_.Generate("x", path));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, MatchesRegex(path + "  64x64, 0.38 s, seed 7, took [0-9]+\\.[0-9] s\n"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.File("a/b")), {}), 1);  // no part file
}

TEST_F(Client, AShapeThatTheModelWasNotTrainedOnIsMadeWithAWarning) {
  server_.Start();
  EXPECT_THAT(server_.Run({"models"}).out, HasSubstr("trained on 64x64, 9 frames\n"));
  const Result known = RunToEnd(server_.Generate("x", directory_.File("a.mp4")));
  EXPECT_THAT(known.err, Not(HasSubstr("trained")));
  const std::string says = "the model was trained on clips of 64x64 with 9 frames; ";
  const Result other = RunToEnd(server_.Generate("x", directory_.File("b.mp4"), {"--frames=17", "--json"}));
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("note: " + says));
  const nlohmann::json video = nlohmann::json::parse(other.out)["video"];
  EXPECT_THAT(std::string(video["resolved"]["warnings"][0]), HasSubstr(says));
  EXPECT_THAT(server_.Run({"get", video["id"]}).out, HasSubstr("warning    " + says));
  const Result batch = server_.Run({"generate", "x", "--frames=17", "--count=2", "-o", directory_.File("{n}.mp4")});
  EXPECT_EQ(batch.err.find(says), batch.err.rfind(says)) << batch.err;  // printed once
}

TEST_F(Client, AFailedJobLeavesNoFile) {
  server_.Start();
  ASSERT_EQ(mkdir(directory_.File("clips").c_str(), 0700), 0);
  EXPECT_EQ(RunToEnd(server_.Generate("fail_at=2", directory_.File("clips/x.mp4"))).status, kFailed);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.File("clips")));
}

TEST_F(Client, AnOutputMayNameTheSeedAndTheJob) {
  server_.Start();
  const std::string path = directory_.File("{seed}/{id}.mp4");
  const Result result = RunToEnd(server_.Generate("x", path, {"--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const auto answer = nlohmann::json::parse(result.out);
  const std::string id = answer["video"]["id"];
  EXPECT_EQ(answer["files"][0], directory_.File(absl::StrCat("7/", id, ".mp4")));
  EXPECT_EQ(ReadFile(answer["files"][0]).substr(4, 4), "ftyp");
}

TEST_F(Client, ADownloadUnderAnotherEndingIsRefused) {
  server_.Start();
  const auto made = nlohmann::json::parse(RunToEnd(server_.Generate("x", directory_.File("x.mp4"), {"--json"})).out);
  const std::string id = made["video"]["id"];
  const Result other = server_.Run({"download", id, "-o", directory_.File("x.webm")});
  EXPECT_EQ(other.status, kRefused);
  EXPECT_THAT(other.err, HasSubstr("use the extension .mp4"));
  const Result written = server_.Run({"download", id, "-o", "-"});
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(written.out, ReadFile(directory_.File("x.mp4")));
}

TEST_F(Client, OpenStartsTheDesktopsProgramWithTheFile) {
  server_.Start();
  const std::string opener = directory_.File("xdg-open"), told = directory_.File("told"),
                    path = directory_.File("x.mp4");
  ASSERT_EQ(mkfifo(told.c_str(), 0600), 0);
  std::ofstream(opener) << "#!/bin/sh\necho \"$1\" > " << told << "\n";
  ASSERT_EQ(chmod(opener.c_str(), 0700), 0);
  std::vector<std::string> command = {"/usr/bin/env", absl::StrCat("PATH=", directory_.File(""), ":/usr/bin:/bin")};
  for (const std::string& argument : server_.Generate("x", path, {"--open"})) command.push_back(argument);
  const Result result = RunToEnd(command);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(ReadFile(told), path + "\n");  // waits for the opener; kinora does not
  command[1] = "PATH=/nowhere";
  const Result without = RunToEnd(command);
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.err, HasSubstr("--open: xdg-open cannot be started: No such file"));
}

TEST_F(Client, ABatchIsQueuedAtOnceAndSavedUnderTheNamesOfItsSeeds) {
  server_.Start();
  std::vector<std::string> command = server_.Client({"generate", gate_.Prompt(), "--seeds=3,7..9"});
  command.insert(command.end(), {"-o", directory_.File("clip-{n}-{seed}.mp4")});
  Process client(command);
  ASSERT_NE(client.AwaitLine("clip 1/4, denoise 1/3"), "") << client.Err();
  EXPECT_EQ(server_.Json({"list", "--state=RUNNING"})["effective"]["seed"], "3");
  const std::string queued = server_.Run({"list", "--state=QUEUED", "--json"}).out;
  EXPECT_EQ(std::count(queued.begin(), queued.end(), '\n'), 3);
  gate_.Open();
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  client.AwaitEndOfOutput();
  for (const char* name : {"clip-1-3.mp4", "clip-2-7.mp4", "clip-3-8.mp4", "clip-4-9.mp4"}) {
    EXPECT_EQ(ReadFile(directory_.File(name)).substr(4, 4), "ftyp") << name;
    EXPECT_THAT(client.Out(), HasSubstr(directory_.File(name) + "  "));
  }
  EXPECT_THAT(client.Err(), AllOf(HasSubstr("clip 4/4, "), Not(HasSubstr("RUNNING"))));
}

TEST_F(Client, ABatchLargerThanTheQueueIsMadeAllTheSame) {
  server_.Start(true, {"--queue-capacity=2"});
  Process client(
      server_.Client({"generate", gate_.Prompt(), "--count=5", "--seed=7", "-o", directory_.File("{n}.mp4")}));
  ASSERT_NE(client.AwaitLine("clip 1/5, denoise 1/3"), "") << client.Err();  // two wait, two find no room
  gate_.Open();
  EXPECT_EQ(client.Wait(), 0) << client.Err();
  client.AwaitEndOfOutput();
  for (int n = 1; n <= 5; ++n) EXPECT_NE(ReadFile(directory_.File(absl::StrCat(n, ".mp4"))), "") << n;
  EXPECT_THAT(client.Out(), HasSubstr("seed 11, took"));
}

TEST_F(Client, CtrlCCancelsAllClipsOfABatchThatAreNotDone) {
  server_.Start();
  Process client(server_.Client({"generate", gate_.Prompt(), "--count=3", "-o", directory_.File("{n}.mp4")}));
  ASSERT_NE(client.AwaitLine("clip 1/3, denoise 1/3"), "") << client.Err();
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled) << client.Err();
  const std::string cancelled = server_.Run({"list", "--state=CANCELLED", "--json"}).out;
  EXPECT_EQ(std::count(cancelled.begin(), cancelled.end(), '\n'), 3);
}

TEST_F(Client, AClipOfABatchThatFailsDoesNotKeepTheOthers) {
  server_.Start();
  const Result result = server_.Run({"generate", "fail_at=2", "--count=2", "-o", directory_.File("{id}.mp4")});
  EXPECT_EQ(result.status, kFailed);
  const std::string failed = server_.Run({"list", "--state=FAILED", "--json"}).out;
  EXPECT_EQ(std::count(failed.begin(), failed.end(), '\n'), 2);
}

TEST_F(Client, ABatchThatCannotBeMeantIsRefusedBeforeItIsSent) {
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"--count=2", "-o", "x.mp4"}, "--output: each clip needs its own path; put {seed}, {id} or {n} into it"},
      {{"--count=2", "-o", "-"}, "--output: each clip needs its own path"},
      {{"--count=2", "--open"}, "--open: works for a single clip only"},
      {{"--count=0"}, "--count 0: must be a whole number from 1 to 1000"},
      {{"--seeds=1..4", "--count=4"}, "--seeds 1..4: cannot be combined with --count"},
      {{"--seeds=4..1"}, "--seeds 4..1: \"4..1\" is neither a seed nor a range"},
      {{"--seeds=1..3,2"}, "--seeds 1..3,2: 2 is given twice"},
      {{"--seeds=1,,2"}, "\"\" is neither a seed nor a range"},
      {{"--seeds=0..18446744073709551615"}, "at most 1000"},
      {{"--count=2", "--seed=18446744073709551615"}, "--count: the largest seed is 18446744073709551615"}};
  for (const auto& [flags, says] : mistakes) {
    std::vector<std::string> arguments = {"generate", "x"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Result result = server_.Run(arguments);
    EXPECT_EQ(result.status, kRefused);
    EXPECT_THAT(result.err, AllOf(HasSubstr(says), Not(HasSubstr("waiting"))));
  }
}

}  // namespace
}  // namespace kinora

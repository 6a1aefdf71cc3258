// What a user of `kinora` meets before and after the job: servers that are not there yet, forgotten prompts, and where
// the file goes. The worker's model is scripted, as in served_path_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/e2e/server.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kRefused = 2, kCancelled = 4, kUnreachable = 5;  // as `kinora --help` says

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

class Client : public testing::Test {
 protected:
  Client() : server_(directory_, {.binary = KINORA_SCRIPTED_WORKER_BINARY, .flags = {"--worker-model=scripted"}}) {}

  TemporaryDirectory directory_;
  Server server_;
};

TEST_F(Client, AForgottenPromptIsRefusedAndAnExplicitlyEmptyOneIsNot) {
  server_.Start();
  std::ofstream(directory_.File("empty.txt")) << "\n";
  std::ofstream(directory_.File("request.json")) << "{\"width\": 64}";
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{}, "kinora: PROMPT: is missing; say what to show and to be heard, or --prompt \"\""},
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
  EXPECT_EQ(server_.Run({"estimate"}).status, 0);  // costs what it costs with any prompt
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

// As a block of commands is pasted: the server is started, and its clients do not wait for it to be there.
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
  EXPECT_EQ(Contents(directory_.File("x.mp4")).substr(4, 4), "ftyp");
  EXPECT_EQ(nlohmann::json::parse(models.Out())["id"], "scripted");
}

TEST_F(Client, CtrlCWhileTheServerIsAwaitedLeavesNoJob) {
  Process client(server_.Generate("x", directory_.File("x.mp4")));
  ASSERT_NE(client.AwaitLine("waiting for the server"), "");
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled);
  EXPECT_NE(client.AwaitLine("left; no job was started"), "") << client.Err();
}

}  // namespace
}  // namespace kinora

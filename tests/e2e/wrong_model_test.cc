// A model that cannot be loaded: --check-config finds it before the start, it is reported everywhere, and it is not
// retried forever. Also checks that the example in config.proto runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kRefused = 2, kUnreachable = 5;

class CheckConfig : public testing::Test {
 protected:
  // Runs in the source folder, because the example's paths are relative to it.
  Result Check(const std::vector<std::string>& flags) const {
    std::vector<std::string> command = {"/usr/bin/env",
                                        "-C",
                                        KINORA_SOURCE_DIR,
                                        KINORA_FRONTEND_BINARY,
                                        "--check-config",
                                        absl::StrCat("--worker-binary=", KINORA_WORKER_BINARY),
                                        absl::StrCat("--state-directory=", directory_.File("state"))};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunToEnd(command);
  }
  TemporaryDirectory directory_;
};

TEST_F(CheckConfig, FindsWhatTheModelLacks) {
  const auto complaint = [&](const std::vector<std::string>& flags) {
    const Result result = Check(flags);
    EXPECT_EQ(result.status, kRefused) << result.out;
    return result.err;
  };
  EXPECT_EQ(Check({absl::StrCat("--worker-model=", kModel), absl::StrCat("--worker-model=", kText)}).status, 0);
  EXPECT_THAT(complaint({"--worker-model=/nowhere.safetensors"}),
              HasSubstr("worker: /nowhere.safetensors: cannot open"));
  EXPECT_THAT(complaint({absl::StrCat("--worker-model=", kModel)}), HasSubstr("worker: model: has no text encoder"));
  EXPECT_THAT(complaint({absl::StrCat("--worker-model=", kModel), absl::StrCat("--worker-model=", kText),
                         "--worker-precision=f64"}),
              HasSubstr("worker: precision: "));
  WriteFile(directory_.File("groups"),
            absl::StrCat("groups { id: 'a' worker { model: '", kModel, "' model: '", kText,
                         "' } } groups { id: 'b' processes: 2 worker { ranks: 'tokens=2' model: '/nowhere' } }"));
  EXPECT_THAT(complaint({"--config", directory_.File("groups")}),
              AllOf(HasSubstr("groups[1].worker: /nowhere"), Not(HasSubstr("groups[0]"))));
}

// Returns the indented lines at the top of config.proto.
std::string Example() {
  std::string example;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(ReadFile(KINORA_SOURCE_DIR "/proto/kinora/v1/config.proto"), '\n'))) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "//")) break;
    if (absl::ConsumePrefix(&rest, "     ")) absl::StrAppend(&example, rest, "\n");
  }
  return example;
}

TEST_F(CheckConfig, TheExampleOfTheConfigurationRuns) {
  WriteFile(directory_.File("example"), Example());
  ASSERT_THAT(Example(), HasSubstr("worker {"));
  const Result result = Check({"--config", directory_.File("example")});
  EXPECT_EQ(result.status, 0) << result.err;
  Process frontend({"/usr/bin/env", "-C", KINORA_SOURCE_DIR, KINORA_FRONTEND_BINARY, "--config",
                    directory_.File("example"), "--address=127.0.0.1:0", "--http-address=127.0.0.1:0",
                    "--worker-http-address=", "--web-address=", "--min-free-bytes=0",
                    absl::StrCat("--worker-binary=", KINORA_WORKER_BINARY),
                    absl::StrCat("--state-directory=", directory_.File("state"))});
  EXPECT_NE(frontend.AwaitLine("event=group_ready"), "") << frontend.Err();
  frontend.Signal(SIGTERM);
  EXPECT_EQ(frontend.Wait(), 0);
}

struct EncoderFolder {  // exists, but is empty
  EncoderFolder() { std::filesystem::create_directory(path); }
  TemporaryDirectory around;
  const std::string path = around.File("gemma");
};

class WrongModel : public EncoderFolder, public TinyModel {
 protected:
  WrongModel()
      : TinyModel({absl::StrCat("--worker-model=", kModel), "--worker-model=kind=dev",
                   absl::StrCat("--worker-model=text_encoder=", path), "--worker-device=cpu", "--worker-precision=f32",
                   "--worker-threads=2"}) {}
};

TEST_F(WrongModel, OfTheOnlyGroupEndsTheStartAsCheckConfigDoes) {
  server_.Start(/*ready=*/false);
  EXPECT_EQ(server_.frontend().Wait(), kRefused);
  EXPECT_THAT(server_.frontend().Err(), AllOf(HasSubstr("kinora-frontend: worker: "), HasSubstr(path)));
}

// The model's files vanish while it serves. Once they are back, it loads without intervention.
TEST_F(WrongModel, IsNamedWhereverSomebodyLooksAndTriedAgainOnceItsFilesAreThere) {
  const auto bring_files = [this] {
    std::filesystem::copy(absl::StripPrefix(kText, "text_encoder=").data(), path,
                          std::filesystem::copy_options::recursive);
  };
  bring_files();
  server_.Start();
  for (const auto& file : std::filesystem::directory_iterator(path)) std::filesystem::remove_all(file);
  EXPECT_EQ(server_.Run({"admin", "restart", "0"}).status, 0);
  const std::string failed = server_.frontend().AwaitLine("event=group_failed");
  EXPECT_THAT(failed, AllOf(HasSubstr("level=error"), HasSubstr(path), HasSubstr("admin restart 0")));
  const auto names_it =
      AllOf(HasSubstr("group 0 is failed"), HasSubstr(path), HasSubstr("a change of its model files"));
  EXPECT_THAT(server_.ReadyPage(), AllOf(HasSubstr(" 503 "), names_it));
  EXPECT_THAT(server_.Run({"admin", "list"}).out, AllOf(HasSubstr("failed"), HasSubstr(path)));
  for (const char* command : {"generate", "create"}) {
    const Result refused = server_.Run({command, kPrompt, "--no-wait"});
    EXPECT_EQ(refused.status, kUnreachable) << refused.err;
    EXPECT_THAT(refused.err, names_it);
  }
  const std::string id = server_.Create(kPrompt, ClipFlags(2));
  EXPECT_THAT(server_.Run({"get", id}).out, AllOf(HasSubstr("waits for  group 0 is failed"), HasSubstr(path)));
  Process watch(server_.Client({"watch", id}));
  EXPECT_THAT(watch.AwaitLine("note: the job is waiting"), names_it);
  bring_files();
  EXPECT_EQ(watch.Wait(), 0) << watch.Err();
}

}  // namespace
}  // namespace kinora

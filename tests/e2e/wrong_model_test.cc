// A model that cannot be loaded: found by --check-config before anything starts, said wherever somebody looks, and not
// tried for ever. And that the example of config.proto is one that runs.
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
  // In the folder of the sources, as the example's paths are.
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
  EXPECT_THAT(complaint({absl::StrCat("--worker-model=", kModel)}), HasSubstr("worker: model: no text encoder"));
  EXPECT_THAT(complaint({absl::StrCat("--worker-model=", kModel), absl::StrCat("--worker-model=", kText),
                         "--worker-precision=f64"}),
              HasSubstr("worker: precision: "));
  WriteFile(directory_.File("groups"),
            absl::StrCat("groups { id: 'a' worker { model: '", kModel, "' model: '", kText,
                         "' } } groups { id: 'b' processes: 2 worker { ranks: 'tokens=2' model: '/nowhere' } }"));
  EXPECT_THAT(complaint({"--config", directory_.File("groups")}),
              AllOf(HasSubstr("groups[1].worker: /nowhere"), Not(HasSubstr("groups[0]"))));
}

// The indented lines at the head of config.proto.
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
                    "--worker-http-address=", "--min-free-bytes=0",
                    absl::StrCat("--worker-binary=", KINORA_WORKER_BINARY),
                    absl::StrCat("--state-directory=", directory_.File("state"))});
  EXPECT_NE(frontend.AwaitLine("event=group_ready"), "") << frontend.Err();
  frontend.Signal(SIGTERM);
  EXPECT_EQ(frontend.Wait(), 0);
}

struct EncoderFolder {  // which is there, and empty
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

// Once its files are there it loads, without anybody's help.
TEST_F(WrongModel, IsNamedWhereverSomebodyLooksAndTriedAgainOnceItsFilesAreThere) {
  server_.Start(/*ready=*/false);
  const std::string failed = server_.frontend().AwaitLine("event=group_failed");
  EXPECT_THAT(failed, AllOf(HasSubstr("level=error"), HasSubstr(path), HasSubstr("admin restart 0")));
  const auto names_it = AllOf(HasSubstr("group 0 is failed"), HasSubstr(path));
  EXPECT_THAT(server_.ReadyPage(), AllOf(HasSubstr(" 503 "), names_it));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", kPrompt, "-o", directory_.File("clip.mp4")}, {"models"}}) {
    const Result result = server_.Run(command);  // at once: waiting would not help
    EXPECT_EQ(result.status, kUnreachable) << result.err;
    EXPECT_THAT(result.err, AllOf(names_it, HasSubstr("NO_MODEL"), Not(HasSubstr("waiting for")))) << command[0];
  }
  EXPECT_THAT(server_.Run({"admin", "list"}).out, AllOf(HasSubstr("failed"), HasSubstr(path)));

  EXPECT_EQ(server_.Run({"admin", "restart", "0"}).status, 0);
  std::filesystem::copy(absl::StripPrefix(kText, "text_encoder=").data(), path,
                        std::filesystem::copy_options::recursive);
  server_.AwaitReadyGroup();
  EXPECT_EQ(server_.Run({"models"}).status, 0);
}

}  // namespace
}  // namespace kinora

// Command line behaviour of every program, without a server or a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/version.h"
#include "tests/e2e/process.h"
#include "tests/e2e/scripted_server.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string& Client() {
  static const std::string path = KINORA_CLIENT_BINARY;
  return path;
}

struct Program {
  const char* name;
  const char* path;
};
constexpr Program kPrograms[] = {{"kinora", KINORA_CLIENT_BINARY},
                                 {"kinora-frontend", KINORA_FRONTEND_BINARY},
                                 {"kinora-worker", KINORA_WORKER_BINARY},
                                 {"kinora-render", KINORA_RENDER_BINARY}};

TEST(Programs, SayTheirVersion) {
  for (const Program& program : kPrograms) {
    for (const char* flag : {"--version", "-V"}) {
      const Result result = RunToEnd({program.path, flag});
      EXPECT_EQ(result.status, 0) << program.name;
      EXPECT_EQ(result.out, VersionText(program.name));
      EXPECT_EQ(result.err, "");
    }
  }
  EXPECT_EQ(RunToEnd({KINORA_DECODE_BINARY, "--version"}).out, VersionText("kinora-decode"));
  EXPECT_THAT(RunToEnd({KINORA_DECODE_BINARY, "--help"}).out, HasSubstr("kinora-worker and kinora-render start it"));
  EXPECT_THAT(VersionText("kinora"),
              AllOf(StartsWith("kinora 0."), HasSubstr("\nbackends  cpu"), HasSubstr("\ncpu path  ")));
}

TEST(Programs, AnswerBothSpellingsOfHelp) {
  for (const Program& program : kPrograms) {
    const Result result = RunToEnd({program.path, "--help"});
    EXPECT_EQ(result.status, 0) << program.name;
    EXPECT_THAT(result.out, AllOf(StartsWith(program.name), HasSubstr("-h, --help"), HasSubstr("--version")));
    EXPECT_EQ(RunToEnd({program.path, "-h"}).out, result.out) << program.name;
  }
}

TEST(Programs, NameTheFlagThatWasProbablyMeant) {
  for (const Program& program : kPrograms) {
    const Result result = RunToEnd({program.path, "--verzion"});
    EXPECT_EQ(result.status, 2) << program.name;
    EXPECT_THAT(result.err, HasSubstr("--verzion: no such flag; did you mean --version?"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(Client, HelpOfACommandIsAskedForInEveryWay) {
  const std::string generate = RunToEnd({Client(), "generate", "--help"}).out;
  EXPECT_THAT(generate,
              AllOf(StartsWith("kinora generate [PROMPT]"), HasSubstr("-o, --output"), HasSubstr("--server")));
  EXPECT_EQ(RunToEnd({Client(), "help", "generate"}).out, generate);
  EXPECT_EQ(RunToEnd({Client(), "-h", "generate"}).out, generate);
  const std::string drain = RunToEnd({Client(), "admin", "drain", "-h"}).out;
  EXPECT_THAT(drain,
              AllOf(StartsWith("kinora admin drain GROUP"), HasSubstr("--admin-server"), Not(HasSubstr("  --server"))));
  EXPECT_EQ(RunToEnd({Client(), "help", "admin", "drain"}).out, drain);
  EXPECT_EQ(RunToEnd({Client(), "admin", "help", "drain"}).out, drain);
  const Result admin = RunToEnd({Client(), "admin", "--help"});
  EXPECT_EQ(admin.status, 0);
  EXPECT_THAT(admin.out, AllOf(HasSubstr("admin restart GROUP"), HasSubstr("--admin-server")));
  EXPECT_EQ(RunToEnd({Client(), "help", "admin"}).out, admin.out);
  const Result nothing = RunToEnd({Client(), "admin"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(nothing.err, admin.out);
  EXPECT_EQ(RunToEnd({Client(), "help"}).out, RunToEnd({Client(), "--help"}).out);
}

TEST(Client, MistakesAreNamedWithWhatWasMeant) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Client());
    const Result result = RunToEnd(arguments);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(error({"generate", "x", "-w", "128"}), "kinora: -w: no such flag; did you mean --width?\n");
  EXPECT_EQ(error({"genrate", "x"}), "kinora: genrate: no such command; did you mean `kinora generate`?\n");
  EXPECT_EQ(error({"admin", "drian"}), "kinora: admin drian: no such command; did you mean `kinora admin drain`?\n");
  EXPECT_EQ(error({"paint"}), "kinora: paint: no such command; `kinora --help` lists them\n");
  EXPECT_THAT(error({"generate", "a", "red", "fox"}),
              AllOf(HasSubstr("3 given: \"a\", \"red\", \"fox\""), HasSubstr("whole prompt in quotes")));
  EXPECT_THAT(error({"create", "x", "--steps", "0"}), StartsWith("kinora: --steps 0: must be a whole number from 1"));
  EXPECT_THAT(error({"get", "x", "--server", "localhost:http"}),
              HasSubstr("--server localhost:http: \"http\" is not a port"));
}

// One line, in kinora's own words.
TEST(Client, AServerThatIsNotThereIsNamedOnce) {
  const auto error = [](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {Client()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {"get", "x", "--timeout=20s"});
    const Result result = RunToEnd(arguments);
    EXPECT_EQ(result.status, kUnreachable) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_EQ(
      error({"--server", "127.0.0.1:1"}),
      "kinora: unreachable: UNAVAILABLE: 127.0.0.1:1: nothing listens on this address; is kinora-frontend running?\n");
  EXPECT_EQ(error({"--server=http://127.0.0.1:1/"}), error({"--server", "127.0.0.1:1"}));
  EXPECT_THAT(error({"--server=unix:/nowhere/at/all.sock"}), HasSubstr("no such socket"));
}

TEST(Client, ThePortOfThePagesAndTheWrongSecurityAreRecognised) {
  TemporaryDirectory directory;
  Server server(directory, Scripted());
  server.Start(/*ready=*/false, {"--address=127.0.0.1:0"});
  const std::string serving = server.frontend().AwaitLine("event=serving");
  const auto error = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {Client(), "get", "x"});
    const Result result = RunToEnd(flags);
    EXPECT_EQ(result.status, kUnreachable) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--server", absl::StrCat("127.0.0.1:", LogField(serving, "http_port"))}),
              HasSubstr("speaks HTTP/1, not gRPC; it may be the port for metrics"));
  EXPECT_THAT(error({"--server", absl::StrCat("https://127.0.0.1:", LogField(serving, "port"))}),
              HasSubstr("does not use TLS"));
  const Result found =
      RunToEnd({Client(), "--server", absl::StrCat("http://127.0.0.1:", LogField(serving, "port")), "list"});
  EXPECT_EQ(found.status, 0) << found.err;
}

}  // namespace
}  // namespace kinora

// `kinora doctor` and `kinora bench` as who sets up a server runs them, on the committed tiny model.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <filesystem>

#include "engine/base/file_descriptor.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A port of this machine that nobody else gets while it lives.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_.get(), 1), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

class Doctor : public testing::Test {
 protected:
  struct Fields {
    std::string address = "127.0.0.1:0", min_free_bytes = "1", model = kModel, memory_share = "1";
  };
  // A configuration that is right unless `fields` are not.
  std::string Config(const Fields& fields) const {
    std::string path = directory_.File("kinora.textproto");
    WriteFile(path, absl::StrCat("address: \"", fields.address, "\"\nhttp_address: \"127.0.0.1:0\"\nmin_free_bytes: ",
                                 fields.min_free_bytes, "\nstate_directory: \"", directory_.File("state"),
                                 "\"\nworker {\n model: \"", fields.model, "\"\n model: \"", kText,
                                 "\"\n device: \"cpu\"\n http_address: \"127.0.0.1:0\"\n memory_share: ",
                                 fields.memory_share, "\n}\n"));
    return path;
  }
  // The answer to doctor --json. Its exit status is 1 if something failed, and else 0.
  json Run(const std::string& of) const {
    const Result result = RunToEnd({KINORA_CLIENT_BINARY, "doctor", "--json", of});
    json report = json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_EQ(result.status, report.value("failed", -1) == 0 ? 0 : 1) << result.out << result.err;
    return report;
  }
  // The first finding of a check that is in this state.
  static json Find(const json& report, const std::string& check, const std::string& state) {
    for (const json& finding : report["checks"]) {
      if (finding["check"] == check && finding["state"] == state) return finding;
    }
    ADD_FAILURE() << "no " << check << " that is " << state << " in " << report.dump(1);
    return {{"what", ""}, {"fix", ""}};
  }

  TemporaryDirectory directory_;
};

TEST_F(Doctor, SaysOfAConfigurationThatIsRightWhatItFound) {
  const json report = Run(Config({}));
  EXPECT_EQ(report["failed"], 0);
  EXPECT_EQ(Find(report, "configuration", "ok")["what"], "right, and the model's files are whole");
  EXPECT_THAT(Find(report, "memory", "ok")["what"], HasSubstr("its default clip, 768x512, 121 frames, need "));
  Find(report, "programs", "ok");
  Find(report, "disk", "ok");
  for (const json& finding : report["checks"]) {
    EXPECT_EQ(finding["fix"] == "", finding["state"] == "ok") << finding;  // who complains says what to do
  }
  const Result text = RunToEnd({KINORA_CLIENT_BINARY, "doctor", Config({})});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("ok       configuration  right"), HasSubstr("0 failed, ")));
  EXPECT_FALSE(std::filesystem::exists(directory_.File("state"))) << "it only looks";
}

TEST_F(Doctor, TakesTheFolderOfAModelWhoseUsualPortsMayBeTaken) {
  const json report = Run(KINORA_SOURCE_DIR "/models/tiny");
  EXPECT_EQ(Find(report, "configuration", "ok")["what"], "right, and the model's files are whole");
}

TEST_F(Doctor, NamesAPortThatIsTaken) {
  const TakenPort taken;
  const std::string address = absl::StrCat("127.0.0.1:", taken.port());
  const json report = Run(Config({.address = address}));
  const json finding = Find(report, "port", "failed");
  EXPECT_THAT(std::string(finding["what"]), AllOf(HasSubstr("address"), HasSubstr(address)));
  EXPECT_THAT(std::string(finding["fix"]), HasSubstr("ss -ltnp"));
}

TEST_F(Doctor, NamesAModelThatIsCut) {
  const std::string cut = directory_.File("cut.safetensors");
  WriteFile(cut, ReadFile(kModel).substr(0, 100000));
  const json report = Run(Config({.model = cut}));
  EXPECT_THAT(std::string(Find(report, "configuration", "failed")["what"]), HasSubstr("cut.safetensors"));
}

TEST_F(Doctor, FindsWhatIsTooLittle) {
  const json disk = Run(Config({.min_free_bytes = "1000000000000000000"}));
  EXPECT_THAT(std::string(Find(disk, "disk", "failed")["what"]), HasSubstr("jobs are refused below"));
  const json memory = Run(Config({.memory_share = "0.000001"}));
  EXPECT_THAT(std::string(Find(memory, "memory", "failed")["what"]), HasSubstr("need "));
}

TEST_F(Doctor, WarnsOfClipsThatWouldBeRefused) {
  // A share in which the default clip fits and the largest usual one, ten times as much, does not.
  for (const double share : {0.5, 0.2, 0.1, 0.05, 0.02}) {
    const json report = Run(Config({.memory_share = absl::StrCat(share)}));
    const bool warned = report.dump().find("refused as too large") != std::string::npos;
    if (!warned || report["failed"] != 0) continue;
    EXPECT_THAT(std::string(Find(report, "clip", "warning")["what"]), HasSubstr(" frames: needs "));
    return;
  }
  GTEST_SKIP() << "no such share of this machine";
}

TEST_F(Doctor, RefusesWhatIsNeitherAConfigurationNorAModel) {
  const std::pair<std::string, const char*> mistakes[] = {
      {directory_.File("none"), "no such file or folder"},
      {directory_.path(), "no .safetensors file and no model_index.json in it"}};
  for (const auto& [path, words] : mistakes) {
    const Result result = RunToEnd({KINORA_CLIENT_BINARY, "doctor", path});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr(words));
  }
}

TEST_F(TinyModel, BenchTimesClipsAndKeepsNone) {
  server_.Start();
  std::vector<std::string> bench = {"bench", "--json", "--quiet", "--clips=3"};
  for (const std::string& flag : ClipFlags(2)) bench.push_back(flag);
  const json report = server_.Json(bench);
  EXPECT_EQ(report["clips"], 3);
  EXPECT_EQ(report["steps"], 2);
  EXPECT_EQ(report["width"], 64);
  const double clip = report["clip_seconds"]["median"], step = report["step_seconds"]["median"];
  EXPECT_GT(step, 0);
  EXPECT_GE(clip, 2 * step);
  EXPECT_LE(report["clip_seconds"]["least"].get<double>(), clip);
  EXPECT_NEAR(report["step_seconds"]["median"].get<double>(), report["stage_seconds"]["denoise"].get<double>() / 2,
              0.5 * step);
  EXPECT_GT(report["clips_per_hour"], 0);
  EXPECT_LE(report["clips_per_hour"].get<double>(), 3600 / report["clip_seconds"]["least"].get<double>());
  EXPECT_EQ(server_.Run({"list"}).out, "") << "jobs that were only timed are deleted";
}

}  // namespace
}  // namespace kinora

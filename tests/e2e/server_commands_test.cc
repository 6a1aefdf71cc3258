// `kinora doctor` and `kinora bench` as used to set up a server, on the committed tiny model.
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

// Occupies a port of this machine during its lifetime.
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
  // Writes a configuration that is valid unless `fields` make it invalid, and returns its path.
  std::string Config(const Fields& fields) const {
    std::string path = directory_.File("kinora.textproto");
    WriteFile(path, absl::StrCat("address: \"", fields.address, "\"\nhttp_address: \"127.0.0.1:0\"\nmin_free_bytes: ",
                                 fields.min_free_bytes, "\nstate_directory: \"", directory_.File("state"),
                                 "\"\nworker {\n model: \"", fields.model, "\"\n model: \"", kText,
                                 "\"\n device: \"cpu\"\n http_address: \"127.0.0.1:0\"\n memory_share: ",
                                 fields.memory_share, "\n}\n"));
    return path;
  }
  // Returns the output of doctor --json. Checks that the exit status is 1 if a check failed and 0 otherwise.
  json Run(const std::string& of) const {
    const Result result = RunToEnd({KINORA_CLIENT_BINARY, "doctor", "--json", of});
    json report = json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_EQ(result.status, report.value("failed", -1) == 0 ? 0 : 1) << result.out << result.err;
    return report;
  }
  // Returns the first finding of a check with this state.
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
  EXPECT_EQ(Find(report, "configuration", "ok")["what"], "valid, and the model's files are complete");
  EXPECT_THAT(Find(report, "memory", "ok")["what"], HasSubstr("its default clip, 768x512, 121 frames, need "));
  Find(report, "programs", "ok");
  Find(report, "disk", "ok");
  for (const json& finding : report["checks"]) {
    EXPECT_EQ(finding["fix"] == "", finding["state"] == "ok") << finding;  // each problem names its fix
  }
  const Result text = RunToEnd({KINORA_CLIENT_BINARY, "doctor", Config({})});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("ok       configuration  valid"), HasSubstr("0 failed, ")));
  EXPECT_FALSE(std::filesystem::exists(directory_.File("state"))) << "it only looks";
}

TEST_F(Doctor, ReadsTheConfigurationOfAWorkerToo) {
  const std::string path = directory_.File("worker.textproto");
  const TakenPort taken;
  const auto write = [&](const std::string& http_address, const std::string& model) {
    WriteFile(path, absl::StrCat("frontend: \"127.0.0.1:8471\"\ngroup: \"demo\"\nhttp_address: \"", http_address,
                                 "\"\nmodel: \"", model, "\"\nmodel: \"", kText, "\"\ndevice: \"cpu\"\n"));
  };
  write("127.0.0.1:0", kModel);
  const json report = Run(path);
  EXPECT_EQ(report["failed"], 0);
  EXPECT_EQ(Find(report, "configuration", "ok")["what"], "valid, and the model's files are complete");
  EXPECT_THAT(std::string(Find(report, "disk", "ok")["what"]), HasSubstr("scratch_directory"));
  EXPECT_THAT(std::string(Find(report, "memory", "ok")["what"]), HasSubstr("its default clip, "));
  EXPECT_EQ(report.dump().find(":8470"), std::string::npos) << "a frontend's port is none of its";
  write(absl::StrCat("127.0.0.1:", taken.port()), directory_.File("none.safetensors"));
  const json wrong = Run(path);
  EXPECT_THAT(std::string(Find(wrong, "configuration", "failed")["what"]), HasSubstr("none.safetensors"));
  EXPECT_THAT(std::string(Find(wrong, "port", "failed")["what"]), HasSubstr("http_address"));
}

TEST_F(Doctor, TakesTheFolderOfAModelWhoseUsualPortsMayBeTaken) {
  const json report = Run(KINORA_SOURCE_DIR "/models/tiny");
  EXPECT_EQ(Find(report, "configuration", "ok")["what"], "valid, and the model's files are complete");
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
  EXPECT_THAT(std::string(Find(disk, "disk", "failed")["what"]), HasSubstr("the frontend rejects jobs below"));
  const json memory = Run(Config({.memory_share = "0.000001"}));
  EXPECT_THAT(std::string(Find(memory, "memory", "failed")["what"]), HasSubstr("need "));
}

TEST_F(Doctor, WarnsOfClipsThatWouldBeRefused) {
  // Finds a memory share in which the default clip fits but the largest common one, ten times its size, does not.
  for (const double share : {0.5, 0.2, 0.1, 0.05, 0.02}) {
    const json report = Run(Config({.memory_share = absl::StrCat(share)}));
    const bool warned = report.dump().find("such requests are rejected") != std::string::npos;
    if (!warned || report["failed"] != 0) continue;
    EXPECT_THAT(std::string(Find(report, "clip", "warning")["what"]), HasSubstr(" frames: needs "));
    return;
  }
  GTEST_SKIP() << "no such share of this machine";
}

TEST_F(Doctor, RefusesWhatIsNeitherAConfigurationNorAModel) {
  const Result none = RunToEnd({KINORA_CLIENT_BINARY, "doctor", directory_.File("none")});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no such file or folder"));
  const Result empty = RunToEnd({KINORA_CLIENT_BINARY, "doctor", directory_.path()});
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.out, HasSubstr("nor a .safetensors file"));
}

TEST_F(TinyModel, BenchTimesClipsAndKeepsNone) {
  server_.Start();
  std::vector<std::string> bench = {"bench", "--json", "--quiet", "--clips=3"};
  for (const std::string& flag : ClipFlags(2)) bench.push_back(flag);
  const json report = server_.Json(bench);
  EXPECT_EQ(report["clips"], 3);
  EXPECT_EQ(report["steps"], 2);
  EXPECT_EQ(report["width"], 64);
  const auto seconds = [&](const char* what, const char* which) { return report[what][which].get<double>(); };
  const double step = seconds("step_seconds", "least");  // each clip has two steps
  EXPECT_GT(step, 0);
  EXPECT_LE(step, seconds("step_seconds", "median"));
  EXPECT_GE(seconds("clip_seconds", "least"), 2 * step);
  EXPECT_LE(seconds("clip_seconds", "least"), seconds("clip_seconds", "median"));
  EXPECT_GE(report["stage_seconds"]["denoise"].get<double>(), 2 * step);
  EXPECT_GT(report["clips_per_hour"], 0);
  EXPECT_LE(report["clips_per_hour"].get<double>(), 3600 / report["clip_seconds"]["least"].get<double>());
  EXPECT_EQ(server_.Run({"list"}).out, "") << "jobs that were only timed are deleted";
}

}  // namespace
}  // namespace kinora

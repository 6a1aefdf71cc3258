// Runs the whole program of scripts/gpu-check on the simulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

using Json = nlohmann::ordered_json;

struct Checked {
  int exit_status = -1;
  std::string out, err;
  Json json;

  const Json& Part(const std::string& name) const {
    static const Json none = Json::object();
    for (const Json& part : json["parts"]) {
      if (part["part"] == name) return part;
    }
    ADD_FAILURE() << "no part " << name << "\n" << out << err;
    return none;
  }
};

Checked Check(std::vector<std::string> arguments, const std::string& model = KINORA_SOURCE_DIR "/models/tiny") {
  TemporaryDirectory folder;
  const std::string file = folder.path() + "/check.json", configs = KINORA_SOURCE_DIR "/engine/config/released";
  arguments.insert(arguments.begin(),
                   {KINORA_GPU_CHECK, "--model", model, "--configs", configs, "--json", file, "--runs", "1"});
  const ProcessResult result = RunProcess(arguments);
  std::ifstream stream(file);
  return {result.exit_status, result.out, result.err, Json::parse(stream, nullptr, /*allow_exceptions=*/false)};
}

TEST(GpuCheck, EveryPartRunsAndFillsItsTables) {
  const Checked checked = Check({});
  EXPECT_EQ(checked.exit_status, 0) << checked.out << checked.err;
  ASSERT_TRUE(checked.json.is_object());
  EXPECT_FALSE(checked.json["times_mean_something"]);
  EXPECT_NE(checked.json["device"].get<std::string>().find("simulated"), std::string::npos);
  EXPECT_EQ(checked.Part("sanitizer")["state"], "not available");
  const std::tuple<const char*, const char*, size_t> tables[] = {
      {"libraries", "libraries", 3},
      {"questions", "cuBLASLt, scales and epilogues", 15},
      {"questions", "cuDNN, convolutions", 4},
      {"questions", "early launch", 6},
      {"ops", "ops", 82},
      {"kernels", "yardstick", 1},
      {"kernels", "kernels", 23},
      {"block", "one block", 2 * 6},
      {"step", "one step", 2 * 6},
      {"decode", "video decoder", 2},
      {"decode", "diffusion decoder", 3},
      {"encode", "video encoder", 2 * 2},
      {"encode", "audio encoder", 1},
      {"encode", "upsampler", 3},
      {"render", "clip", 2},
      {"probes", "cuBLASLt, bf16, the fastest of its proposals", 2 * 3},
      {"probes", "cuDNN's attention, bf16", 2}};
  for (const auto& [part, table, rows] : tables) {
    EXPECT_EQ(checked.Part(part)["state"], "passed") << checked.Part(part)["why"].dump();
    const Json found = checked.Part(part)["tables"].value(table, Json::array());
    EXPECT_GE(found.size(), rows) << part << ": " << table;
    for (const Json& row : found) EXPECT_EQ(row.size(), found.front().size()) << row.dump();
  }
}

TEST(GpuCheck, AnswersWhatTheSimulationKnowsAndSaysWhatItDoesNot) {
  const Checked checked = Check({"--part", "questions"});
  const Json& part = checked.Part("questions");
  EXPECT_EQ(part["state"], "passed") << checked.out;
  EXPECT_THAT(part["notes"].dump(), HasSubstr("the simulation cannot answer"));
  for (const Json& row : part["tables"]["cuBLASLt, scales and epilogues"]) {
    const bool fp8 = row["form"].get<std::string>().find("fp8") == 0;
    EXPECT_EQ(row["exists"], fp8 ? "no" : "yes") << row.dump();
  }
  int sums = 0;
  for (const Json& row : part["tables"]["cuDNN, convolutions"]) {
    if (row["error of the sum"].is_null()) continue;
    ++sums;
    EXPECT_LT(row["error of the sum"].get<double>(), 1e-2) << row.dump();
    EXPECT_GT(row["error of the sum"].get<double>(), 0) << row.dump();  // bf16 is rounded once more
  }
  EXPECT_EQ(sums, 2);
  for (const Json& row : part["tables"]["early launch"]) EXPECT_EQ(row["result"], "right") << row.dump();
}

TEST(GpuCheck, APartThatFailsLeavesTheOthersAlone) {
  const Checked checked = Check({"--part", "render", "--part", "probes"}, "/nowhere");
  EXPECT_EQ(checked.exit_status, 1);
  EXPECT_EQ(checked.Part("render")["state"], "failed");
  EXPECT_NE(checked.Part("render")["why"].dump().find("/nowhere"), std::string::npos);
  EXPECT_EQ(checked.Part("probes")["state"], "passed");
}

TEST(GpuCheck, SaysHowAnotherRunsErrorsDiffer) {
  TemporaryDirectory folder;
  const std::string earlier = folder.path() + "/earlier.json";
  std::ofstream(earlier)
      << R"({"parts": [{"part": "ops", "tables": {"ops": [{"op": "Add", "dtype": "f32", "relative": 0.5}]}}]})";
  const Checked checked = Check({"--part", "ops", "--compare", earlier});
  bool found = false;
  for (const Json& row : checked.Part("ops")["tables"]["device minus simulation"]) {
    if (row["op"] != "Add" || row["dtype"] != "f32") continue;
    found = true;
    EXPECT_NEAR(row["difference"].get<double>(), -0.5, 1e-3);
  }
  EXPECT_TRUE(found) << checked.out;
}

TEST(GpuCheck, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Check({"--part", "everything"}).exit_status, 2);
  EXPECT_EQ(Check({"--quick"}).exit_status, 2);
  EXPECT_THAT(Check({"--smal"}).err, HasSubstr("did you mean --small?"));
  EXPECT_THAT(Check({"--version"}).out, HasSubstr("\nbackends  cpu, cuda (simulated)\n"));
  const Checked none = Check({"--part", "sanitizer"});
  EXPECT_EQ(none.exit_status, 3) << none.out;
}

}  // namespace
}  // namespace kinora

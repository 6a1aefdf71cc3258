// Every list of stages must equal that of engine/request/stage.h.
#include "server/common/stage_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/common/metrics.h"

namespace kinora {
namespace {

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const StageRow& row : kStages) names.emplace_back(row.name);
  return names;
}

// Returns the captures of `pattern` between `begin` and `end` in a file of the tree.
std::vector<std::string> Listed(const std::string& path, const std::string& begin, const std::string& end,
                                const std::string& pattern) {
  std::ifstream file(absl::StrCat(KINORA_SOURCE_DIR, "/", path));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t first = text.find(begin);
  if (first == std::string::npos) return {absl::StrCat(path, " has no ", begin)};
  text = text.substr(first, text.find(end, first) - first);
  const std::regex name(pattern);
  std::vector<std::string> names;
  for (std::sregex_iterator one(text.begin(), text.end(), name), none; one != none; ++one) names.push_back((*one)[1]);
  return names;
}

TEST(Stages, HaveTheNumbersAndNamesOfTheProtocol) {
  const google::protobuf::EnumDescriptor& wire = *v1::StageKind_descriptor();
  std::set<int> kinds = {v1::STAGE_UNSPECIFIED};
  for (const auto& [stage, name] : kStages) {
    const auto* const value = wire.FindValueByNumber(static_cast<int>(stage.kind));
    ASSERT_NE(value, nullptr) << name;
    const std::string kind = absl::AsciiStrToLower(value->name().substr(std::string("STAGE_").size()));
    EXPECT_EQ(name, stage.part == 0 ? kind : absl::StrCat(kind, "_", stage.part));
    kinds.insert(value->number());
  }
  EXPECT_EQ(static_cast<int>(kinds.size()), wire.value_count());
}

TEST(Stages, PassOverTheStreamAndUnknownOnesHaveNoName) {
  for (const auto& [stage, name] : kStages) {
    v1::StageMark mark;
    SetStage(stage, mark);
    EXPECT_EQ(StageOf(mark), stage) << name;
    EXPECT_EQ(stage.name(), name);
    EXPECT_EQ(FindStage(name)->stage, stage);
  }
  v1::StepMark mark;
  EXPECT_EQ(StageOf(mark).name(), "");
  mark.set_stage(v1::STAGE_ENCODE);
  mark.set_part(1);
  EXPECT_EQ(StageOf(mark).name(), "");
  mark.set_part(0);
  mark.set_stage(static_cast<v1::StageKind>(256 + v1::STAGE_ENCODE));
  EXPECT_EQ(StageOf(mark).name(), "");
  EXPECT_EQ(FindStage("encode "), nullptr);
}

TEST(Stages, HaveTheirMetricsFromTheStart) {
  MetricsPage page;
  const WorkerMetrics metrics(page.registry());
  const std::string text = page.Text();
  for (const auto& [stage, name] : kStages) {
    const std::string count = absl::StrCat("_count{stage=\"", std::string(name), "\"} 0\n");
    EXPECT_THAT(text, testing::HasSubstr("kinora_stage_duration_seconds" + count));
    EXPECT_EQ(text.find("kinora_denoise_step_seconds" + count) != std::string::npos, stage.kind == StageKind::kDenoise)
        << name;
  }
}

TEST(Stages, AreThoseOfTheDocumentation) {
  EXPECT_EQ(Listed("docs/monitoring.md", "| Stage | Work |", "\n\n", "\n\\| `([a-z_0-9]+)`"), Names());
}

TEST(Stages, AreThoseOfTheApi) {
  const std::string path = "proto/kinora/v1/video_generation.proto";
  EXPECT_EQ(Listed(path, "message Progress {", "string stage", "\"([a-z_0-9]+)\""), Names());
}

}  // namespace
}  // namespace kinora

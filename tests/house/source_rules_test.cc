// Things that may occur in only one place of the production code: the names of stages, and the clocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "engine/request/stage.h"
#include "tests/house/tree.h"

namespace kinora {
namespace {

// Returns "path:line" for every non-comment line that matches `pattern`, in engine and server files other than
// `allowed`.
std::vector<std::string> LinesWith(const std::string& pattern, const std::set<std::string>& allowed) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (const Source& source : CppSources()) {
    const bool production = source.path.starts_with("engine/") || source.path.starts_with("server/");
    if (!production || allowed.contains(source.path)) continue;
    for (size_t i = 0; i < source.lines.size(); ++i) {
      const std::string code = source.lines[i].substr(0, source.lines[i].find("//"));
      if (std::regex_search(code, expression)) found.push_back(source.path + ":" + std::to_string(i + 1));
    }
  }
  return found;
}

TEST(SourceRules, TimeIsReadFromAClock) {
  const std::set<std::string> allowed = {
      "engine/base/clock.cc",
      "engine/processes/socket_rendezvous.cc",  // waits in a forked child, where Clock::Steady() does not work
  };
  EXPECT_THAT(LinesWith(R"(absl::Now\(\)|_clock::now\(\)|absl/time/clock\.h)", allowed), testing::IsEmpty())
      << "take a Clock (engine/base/clock.h)";
}

TEST(SourceRules, NamesOfStagesStandInTheirTable) {
  std::string names;
  for (const StageRow& row : kStages) names += (names.empty() ? "" : "|") + std::string(row.name);
  EXPECT_THAT(LinesWith("\"(" + names + ")\"", {"engine/request/stage.h"}), testing::IsEmpty())
      << "use StageKind and Stage::name() (engine/request/stage.h)";
}

}  // namespace
}  // namespace kinora

// The tables of docs/http.md must name the fields, reasons, flags and paths of the code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/foreign_fields.h"
#include "server/gateway/gateway_flags.h"
#include "server/gateway/openapi.h"

namespace kinora {
namespace {

using testing::ElementsAreArray;
using testing::IsSubsetOf;

// The rows of all tables in a section, without their heads.
std::vector<std::string> RowsOf(const std::string& heading) {
  std::ifstream file(KINORA_SOURCE_DIR "/docs/http.md");
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == absl::StrCat("## ", heading);
    if (!inside || !line.starts_with("|")) continue;
    if (line.starts_with("|---")) {
      rows.pop_back();
    } else {
      rows.push_back(line);
    }
  }
  return rows;
}

std::string CellOf(const std::string& row, size_t index) {
  const std::vector<std::string> cells = absl::StrSplit(row, " | ");
  return cells.at(index);
}

// All texts between backticks.
std::set<std::string> Quoted(const std::string& text) {
  const std::vector<std::string> pieces = absl::StrSplit(text, '`');
  std::set<std::string> found;
  for (size_t i = 1; i + 1 < pieces.size(); i += 2) found.insert(pieces[i]);
  return found;
}

TEST(HttpPageTest, ListsEveryRejectedFieldOfOtherServersWithItsReason) {
  std::vector<std::string> rows;
  for (const ForeignField& field : ForeignFields()) {
    std::vector<std::string> values;
    for (const absl::string_view value : absl::StrSplit(std::string(field.without), '|', absl::SkipEmpty())) {
      values.push_back(absl::StrCat("`", value, "`"));
    }
    rows.push_back(absl::StrCat("| `", std::string(field.name), "` | ", std::string(field.servers), " | ",
                                values.empty() ? "–" : absl::StrJoin(values, ", "), " | ", std::string(field.reason),
                                " |"));
  }
  EXPECT_THAT(RowsOf("Rejected fields"), ElementsAreArray(rows));
}

TEST(HttpPageTest, ListsEveryFieldOnce) {
  std::set<std::string> fields = {"extra_body", "extra_params"};
  for (const std::string_view name : CreateFieldNames()) fields.emplace(name);
  std::multiset<std::string> listed;
  for (const std::string& row : RowsOf("Fields")) {
    for (const std::string& name : Quoted(CellOf(row, 0))) listed.insert(name);
  }
  EXPECT_THAT(listed, ElementsAreArray(fields));
}

TEST(HttpPageTest, NamesFlagsOfTheGateway) {
  std::set<std::string> flags, listed;
  for (const FlagSpec& flag : GatewayFlagSpecs()) flags.insert(absl::StrCat("--", flag.name));
  for (const std::string& row : RowsOf("Limits")) {
    for (const std::string& name : Quoted(CellOf(row, 2))) listed.insert(name);
  }
  EXPECT_GE(listed.size(), 8u);
  EXPECT_THAT(listed, IsSubsetOf(flags));
}

// The defaults of the table, as the help has them.
TEST(HttpPageTest, NamesDefaultsOfTheGateway) {
  for (const std::string& row : RowsOf("Limits")) {
    const std::set<std::string> names = Quoted(CellOf(row, 2));
    if (names.size() != 1) continue;
    for (const FlagSpec& flag : GatewayFlagSpecs()) {
      if (absl::StrCat("--", flag.name) != *names.begin()) continue;
      const std::vector<std::string> parts = absl::StrSplit(std::string(flag.help), "default: ");
      std::string value = CellOf(row, 1);
      value = value.substr(0, value.find(';'));
      std::erase_if(value, [](char c) { return c == ' ' || c == ','; });
      EXPECT_EQ(parts.back(), value) << row;
    }
  }
}

TEST(HttpPageTest, NamesEveryPathOfTheDocument) {
  std::ifstream file(KINORA_SOURCE_DIR "/docs/http.md");
  std::stringstream text;
  text << file.rdbuf();
  const nlohmann::json document = nlohmann::json::parse(OpenApiDocument());
  for (const auto& [path, item] : document["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters") continue;
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(std::toupper(c));
      EXPECT_THAT(text.str(), testing::HasSubstr(absl::StrCat("`", upper, " ", path, "`")));
    }
  }
}

}  // namespace
}  // namespace kinora

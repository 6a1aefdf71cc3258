// The pages' lists of missing features must equal what the code rejects, and nothing may promise a missing feature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <string>
#include <vector>

#include "tests/house/tree.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::Not;

const fs::path kRoot = KINORA_SOURCE_DIR;

std::string TextOf(const std::string& path) {
  std::ifstream file(kRoot / path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A missing feature that a list may name, and the error for a model or LoRA that needs it.
struct Gap {
  const char* item;  // start of the list item
  const char* file;
  const char* rejection;
};
constexpr Gap kGaps[] = {
    {"reference videos", "engine/weights/lora.cc", "reference videos are not available yet"},
    {"interleaved rotation", "engine/model/connector.cc", "of the connectors: not available yet"},
    {"timestep-conditioned video decoders", "engine/model/video_decoder.cc", "timestep_conditioning is not available"},
    {"noise injection in the video decoder", "engine/model/video_decoder.cc", "inject_noise is not available"},
};

std::vector<std::string> Split(const std::string& text, const std::string& between) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(between, begin)) != std::string::npos; begin = end + between.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Returns the features that README.md's table "Status" lists as missing, from its rows for models, recipes and inputs.
std::vector<std::string> ReadmeItems() {
  std::vector<std::string> items;
  const std::string text = TextOf("README.md");
  for (const std::string row : {"\n| Models | ", "\n| Recipes | ", "\n| Inputs | "}) {
    const size_t begin = text.find(row);
    if (begin == std::string::npos) return {};
    const std::string line = text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
    const std::vector<std::string> cells = Split(line, " | ");
    const std::string cell = cells.back().substr(0, cells.back().find(" |"));
    if (cell == "|") continue;  // an empty cell
    for (const std::string& item : Split(cell, ", ")) items.push_back(item);
  }
  return items;
}

// Returns the bullets of docs/model.md "Not supported".
std::vector<std::string> ModelItems() {
  const std::string text = TextOf("docs/model.md");
  std::vector<std::string> items = Split(text.substr(text.find("## Not supported")), "\n- ");
  items.erase(items.begin());
  return items;
}

const Gap* GapOf(const std::string& item) {
  const auto* gap =
      std::find_if(std::begin(kGaps), std::end(kGaps), [&](const Gap& one) { return item.rfind(one.item, 0) == 0; });
  return gap == std::end(kGaps) ? nullptr : gap;
}

TEST(NotYetRules, WhatThePagesListIsRejectedByName) {
  const std::vector<std::string> readme = ReadmeItems(), model = ModelItems();
  ASSERT_FALSE(readme.empty());
  for (const auto& items : {readme, model}) {
    for (const std::string& item : items) {
      if (item == "HDR") {  // no error: no field requests it
        EXPECT_THAT(TextOf("proto/kinora/v1/video_generation.proto"), Not(HasSubstr("hdr")));
      } else {
        EXPECT_NE(GapOf(item), nullptr) << item << ": nothing is known to reject it";
      }
    }
  }
  for (const Gap& gap : kGaps) {
    EXPECT_THAT(TextOf(gap.file), HasSubstr(gap.rejection));
    EXPECT_TRUE(
        std::any_of(model.begin(), model.end(), [&](const std::string& item) { return item.rfind(gap.item, 0) == 0; }))
        << "docs/model.md does not list " << gap.item;
  }
}

TEST(NotYetRules, WhatTheCodeRejectsIsListed) {
  const std::regex rejection("UnimplementedError\\([^;]*not available");
  for (const Source& source : CppSources()) {
    if (source.path.rfind("engine/model/", 0) != 0 && source.path.rfind("engine/weights/lora", 0) != 0) continue;
    const std::string text = TextOf(source.path);
    const auto found = std::distance(std::sregex_iterator(text.begin(), text.end(), rejection), std::sregex_iterator());
    // The encoders only forward the reason why their part of the configuration cannot be read.
    if (text.find("encoder is not available: \", config.unavailable") != std::string::npos) continue;
    const auto listed =
        std::count_if(std::begin(kGaps), std::end(kGaps), [&](const Gap& gap) { return source.path == gap.file; });
    EXPECT_EQ(found, listed) << source.path;
  }
}

TEST(NotYetRules, FieldsOfTheApiAreMarkedAsLongAsTheyAreRejected) {
  const std::string table = TextOf("engine/request/not_available.cc"),
                    proto = TextOf("proto/kinora/v1/video_generation.proto");
  const std::regex rows("std::array<Row<\\w+>, ([0-9]+)>");
  int total = 0;
  for (auto at = std::sregex_iterator(table.begin(), table.end(), rows); at != std::sregex_iterator(); ++at) {
    total += std::stoi((*at)[1]);
  }
  const std::regex mark("\n +// UNIMPLEMENTED");
  EXPECT_EQ(total, std::distance(std::sregex_iterator(proto.begin(), proto.end(), mark), std::sregex_iterator()));
  const bool none = TextOf("docs/clients.md").find("Today there are none.") != std::string::npos;
  EXPECT_EQ(none, total == 0) << "docs/clients.md \"Not available yet\"";
}

// FP8 files are read and widened; no backend stores or computes FP8.
TEST(NotYetRules, NothingPromisesFp8) {
  const std::vector<Source> sources =
      ReadTree({"docs", "proto", "deploy", "docker", "server"}, [](const fs::path& path) {
        const std::string extension = path.extension().string();
        return extension == ".md" || extension == ".proto" || extension == ".textproto" || extension == ".yaml" ||
               extension == ".h" || extension == ".cc";
      });
  EXPECT_GT(sources.size(), 100u);
  for (const Source& source : sources) {
    for (const std::string& line : source.lines) {
      EXPECT_THAT(line, Not(HasSubstr("--precision fp8"))) << source.path;
      EXPECT_THAT(line, Not(HasSubstr("|fp8"))) << source.path;
      EXPECT_THAT(line, Not(HasSubstr("\"fp8\""))) << source.path;
    }
  }
}

// Returns GitHub's anchor for a heading.
std::string AnchorOf(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return anchor;
}

TEST(NotYetRules, RunbooksOfAlertsAreThere) {
  const std::regex runbook("runbook: (docs/[a-z]+\\.md)#([a-z0-9-]+)");
  for (const char* rules : {"deploy/prometheus/alerts.yaml", "deploy/kubernetes/components/monitoring/rules.yaml"}) {
    const std::string text = TextOf(rules);
    int found = 0;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), runbook); at != std::sregex_iterator();
         ++at, ++found) {
      const std::vector<std::string> lines = Split(TextOf((*at)[1]), "\n");
      EXPECT_TRUE(std::any_of(lines.begin(), lines.end(),
                              [&](const std::string& line) {
                                return line.starts_with("#") &&
                                       AnchorOf(line.substr(line.find_first_not_of("# "))) == (*at)[2];
                              }))
          << rules << ": " << (*at)[0];
    }
    EXPECT_GE(found, 10) << rules;
  }
}

}  // namespace
}  // namespace kinora

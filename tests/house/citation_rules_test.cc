// Pages and headings that comments and pages refer to must exist in this tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/house/tree.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = KINORA_SOURCE_DIR;

// Returns one string per file. Comment lines are joined, so that a citation may break anywhere.
const std::map<std::string, std::string>& Texts() {
  static const auto* texts = [] {
    const std::set<std::string> kinds = {"",    ".h",  ".cc",  ".inc",   ".cu", ".cuh",
                                         ".md", ".py", ".txt", ".proto", ".sh", ".cmake"};
    const auto sources = ReadTree(
        {"engine", "server", "kernels", "proto", "tests", "tools", "scripts", "docs", ".ci"},
        [&](const fs::path& path) {
          return kinds.contains(path.extension().string()) && path.string().find("/house/") == std::string::npos &&
                 path.string().find("/docs/site/") == std::string::npos;  // refers to generated pages
        });
    auto* out = new std::map<std::string, std::string>;
    for (const Source& source : sources) {
      std::string& text = (*out)[source.path];
      for (const std::string& line : source.lines) {
        const size_t begin = line.find_first_not_of(" \t/#");
        if (begin != std::string::npos) text.append(line, source.path.ends_with(".md") ? 0 : begin).append(" ");
      }
    }
    return out;
  }();
  return *texts;
}

std::set<std::string> HeadingsOf(const fs::path& page) {
  std::set<std::string> headings;
  std::ifstream file(page);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) headings.insert(line.substr(line.find_first_not_of("# ")));
  }
  return headings;
}

struct Citation {
  std::string page;                     // as written: "docs/model.md", "README.md"
  std::vector<std::string> headings{};  // quoted after the page: docs/model.md "Block", "Attention"
};

std::vector<Citation> CitationsIn(const std::string& text) {
  const std::string ending = ".md", letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  std::vector<Citation> citations;
  for (size_t at = text.find(ending); at != std::string::npos; at = text.find(ending, at + 1)) {
    size_t end = at + ending.size();
    if (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) continue;  // a longer word
    const size_t before = text.find_last_not_of(letters, at);
    size_t begin = before == std::string::npos ? 0 : before + 1;
    if (text[begin] == '/') ++begin;
    if (begin == at) continue;
    Citation citation{.page = text.substr(begin, end - begin)};
    for (const char* mark = " \""; text.compare(end, std::strlen(mark), mark) == 0; mark = ", \"") {
      const size_t first = end + std::strlen(mark), last = text.find('"', first);
      if (last == std::string::npos) break;
      citation.headings.push_back(text.substr(first, last - first));
      end = last + 1;
    }
    citations.push_back(std::move(citation));
  }
  return citations;
}

// "a.{h,cc}" -> "a.h", "a.cc". A path without braces is returned unchanged.
std::vector<std::string> Expanded(const std::string& path) {
  const size_t open = path.find('{'), close = path.find('}');
  if (open == std::string::npos || close == std::string::npos) return {path};
  std::vector<std::string> paths;
  for (size_t begin = open + 1; begin <= close;) {
    const size_t end = std::min(path.find(',', begin), close);
    paths.push_back(path.substr(0, open) + path.substr(begin, end - begin) + path.substr(close + 1));
    begin = end + 1;
  }
  return paths;
}

// Returns the back-quoted paths of this tree in a page.
std::vector<std::string> PathsIn(const std::string& page) {
  std::vector<std::string> paths;
  for (size_t open = page.find('`'); open != std::string::npos;) {
    const size_t close = page.find('`', open + 1);
    if (close == std::string::npos) break;
    const std::string quoted = page.substr(open + 1, close - open - 1);
    for (const char* top : {"engine/", "server/", "tests/", "proto/", "tools/", "scripts/", "models/", "docs/"}) {
      if (!quoted.starts_with(top) || quoted.find_first_of(" *") != std::string::npos) continue;
      for (std::string& path : Expanded(quoted)) paths.push_back(std::move(path));
    }
    open = page.find('`', close + 1);
  }
  return paths;
}

TEST(CitationRules, TheTreeIsThere) { EXPECT_GT(Texts().size(), 100u); }

TEST(CitationRules, CitationsAreFoundWithTheirHeadings) {
  const auto found = CitationsIn("x (docs/model.md \"Block\", \"Size and work\"; y), see ../README.md. a.mdx");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].page, "docs/model.md");
  EXPECT_THAT(found[0].headings, testing::ElementsAre("Block", "Size and work"));
  EXPECT_EQ(found[1].page, "../README.md");
}

TEST(CitationRules, EveryPageThatIsNamedExistsWithItsHeadings) {
  size_t headings = 0;
  for (const auto& [path, text] : Texts()) {
    for (const Citation& citation : CitationsIn(text)) {
      const fs::path near = kRoot / fs::path(path).parent_path() / citation.page;
      const fs::path page = fs::exists(near) ? near : kRoot / citation.page;
      EXPECT_TRUE(fs::exists(page)) << path << " names " << citation.page;
      const std::set<std::string> there = HeadingsOf(page);
      for (const std::string& heading : citation.headings) {
        EXPECT_TRUE(there.contains(heading)) << path << " names " << citation.page << " \"" << heading << '"';
      }
      headings += citation.headings.size();
    }
  }
  EXPECT_GT(headings, 10u);
}

TEST(CitationRules, PathsAreFoundWithTheirBraces) {
  EXPECT_THAT(PathsIn("`engine/a.{h,cc}`, `x` and `server/{b,c}/`; `tests/*.cc`, `scripts/test -R media`"),
              testing::ElementsAre("engine/a.h", "engine/a.cc", "server/b/", "server/c/"));
}

TEST(CitationRules, EveryPathThatAPageNamesExists) {
  size_t named = 0;
  for (const auto& [path, text] : Texts()) {
    if (!path.ends_with(".md")) continue;
    for (const std::string& there : PathsIn(text)) {
      EXPECT_TRUE(fs::exists(kRoot / there)) << path << " names " << there;
      ++named;
    }
  }
  EXPECT_GT(named, 50u);
}

TEST(CitationRules, NoSectionOfAnUnnamedPageIsCited) {
  for (const auto& [path, text] : Texts()) {
    for (const char* words : {"spec §", "Spec §", "spec. §", "LTX2_SPEC", "ARCHITECTURE", "STYLE.", "SIMT."}) {
      const size_t at = text.find(words);
      EXPECT_EQ(at, std::string::npos) << path << ": " << text.substr(at == std::string::npos ? 0 : at, 60);
    }
    for (size_t at = text.find("spec "); at != std::string::npos; at = text.find("spec ", at + 1)) {
      EXPECT_FALSE(std::isdigit(static_cast<unsigned char>(text[at + 5]))) << path << ": " << text.substr(at, 40);
    }
  }
}

}  // namespace
}  // namespace kinora

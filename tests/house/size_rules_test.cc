// Length limits for files and functions. The tree's formatting makes functions easy to find: a definition starts at the
// margin (or one indentation inside a class) and ends with a brace there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "tests/house/tree.h"

namespace kinora {
namespace {

constexpr size_t kFileLines = 500, kHeaderLines = 170, kFunctionLines = 40;

struct Function {
  std::string first_line;
  size_t line = 0, length = 0;  // 1-based; from the first line of the declaration to the closing brace
};

bool BeginsWithAny(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (text.starts_with(word)) return true;
  }
  return false;
}

// Whether the line starts with a name at this indentation and is not a scope, type or table.
bool MayBeginFunction(const std::string& line, size_t indentation) {
  if (line.size() <= indentation || line.find_first_not_of(' ') != indentation) return false;
  const std::string text = line.substr(indentation);
  const bool attribute = text[0] == '_' || text.starts_with("[[");  // __global__, __device__, [[noreturn]]
  if (std::isalpha(static_cast<unsigned char>(text[0])) == 0 && text[0] != '~' && !attribute) return false;
  return !BeginsWithAny(text,
                        {"namespace", "struct", "class", "enum", "union", "using", "template", "typedef", "extern",
                         "public:", "private:", "protected:", "return", "if (", "for (", "while (", "switch"});
}

// Returns the functions at the margin (indentation 0), or in classes at the margin (indentation 2).
std::vector<Function> FunctionsOf(const std::vector<std::string>& lines, size_t indentation) {
  constexpr size_t kDeclaration = 8;  // maximum lines of a declaration
  const std::string end = std::string(indentation, ' ') + "}";
  std::vector<Function> functions;
  bool in_class = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (BeginsWithAny(lines[i], {"class", "struct"}) && lines[i].ends_with("{")) in_class = true;
    if (lines[i] == "};") in_class = false;
    if (indentation > 0 && !in_class) continue;
    if (!MayBeginFunction(lines[i], indentation)) continue;
    size_t open = i;
    bool parameters = false;
    for (; open < lines.size() && open < i + kDeclaration; ++open) {
      parameters |= lines[open].find('(') != std::string::npos;
      if (lines[open].ends_with("{") || lines[open].ends_with(";") || lines[open].ends_with("}")) break;
    }
    if (!parameters || open == lines.size() || !lines[open].ends_with("{")) continue;
    size_t close = open + 1;
    while (close < lines.size() && !lines[close].starts_with(end)) ++close;
    if (close < lines.size() && lines[close] == end) functions.push_back({lines[i], i + 1, close - i + 1});
    i = open;
  }
  return functions;
}

TEST(SizeRules, FilesStayReadable) {
  for (const Source& source : CppSources()) {
    EXPECT_LE(source.lines.size(), source.path.ends_with(".h") ? kHeaderLines : kFileLines) << source.path;
  }
}

TEST(SizeRules, FunctionsAreFoundWithTheirLengths) {
  const std::vector<std::string> lines = {"namespace a {",
                                          "constexpr int kTable[] = {",
                                          "    1,",
                                          "};",
                                          "class B {",
                                          "  void Inside() {",
                                          "    if (x) {",
                                          "    }",
                                          "  }",
                                          "};",
                                          "int Outside(int a,",
                                          "            int b) {",
                                          "  Call(",
                                          "      {",
                                          "      });",
                                          "}",
                                          "template <int kN>",
                                          "__global__ void __launch_bounds__(kThreads, 2)",
                                          "    Kernel(Tile t) {",
                                          "  Call();",
                                          "}"};
  const std::vector<Function> outer = FunctionsOf(lines, 0), inner = FunctionsOf(lines, 2);
  ASSERT_EQ(outer.size(), 2u);
  EXPECT_EQ(outer[0].line, 11u);
  EXPECT_EQ(outer[0].length, 6u);
  EXPECT_EQ(outer[1].line, 18u);
  EXPECT_EQ(outer[1].length, 4u);
  ASSERT_EQ(inner.size(), 1u);
  EXPECT_EQ(inner[0].line, 6u);
  EXPECT_EQ(inner[0].length, 4u);
}

TEST(SizeRules, FunctionsStayReadable) {
  size_t found = 0;
  for (const Source& source : CppSources()) {
    if (source.path.starts_with("tests/")) continue;  // tests may have longer functions
    for (const size_t indentation : {0, 2}) {
      for (const Function& function : FunctionsOf(source.lines, indentation)) {
        EXPECT_LE(function.length, kFunctionLines)
            << source.path << ":" << function.line << ": " << function.first_line;
        ++found;
      }
    }
  }
  EXPECT_GT(found, 1000u);
}

}  // namespace
}  // namespace kinora

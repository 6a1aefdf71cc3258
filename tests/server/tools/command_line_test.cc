#include "server/tools/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr FlagSpec kFlags[] = {
    {"seed", "N", "a number"}, {"label", "K=V", "may be given again"}, {"json", "", "as JSON"}};

TEST(CommandLine, TakesValuesAfterASpaceOrAnEqualsSign) {
  const auto line = CommandLine::Parse(kFlags, {"--seed", "-3", "--label=a=b", "--label", "c", "job", "--json"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->GetInt("seed", -10, 10)->value(), -3);
  EXPECT_THAT(line->GetAll("label"), ElementsAre("a=b", "c"));
  EXPECT_THAT(line->operands(), ElementsAre("job"));
  EXPECT_TRUE(line->Has("json"));
}

TEST(CommandLine, EverythingAfterTwoDashesIsAnOperand) {
  const auto line = CommandLine::Parse(kFlags, {"--", "--json"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->operands(), ElementsAre("--json"));
  EXPECT_FALSE(line->Has("json"));
}

TEST(CommandLine, ErrorsNameTheFlag) {
  EXPECT_THAT(CommandLine::Parse(kFlags, {"--sede=1"}).status().message(), HasSubstr("--sede"));
  EXPECT_THAT(CommandLine::Parse(kFlags, {"--json=1"}).status().message(), HasSubstr("--json"));
  EXPECT_THAT(CommandLine::Parse(kFlags, {"--seed"}).status().message(), HasSubstr("--seed"));
  for (const char* value : {"1e3", "11", "", "99999999999999999999"}) {
    const auto line = CommandLine::Parse(kFlags, {"--seed", value});
    ASSERT_TRUE(line.ok());
    EXPECT_THAT(line->GetInt("seed", 0, 10).status().message(), HasSubstr("--seed")) << value;
  }
}

TEST(CommandLine, NumbersMustBeFinite) {
  for (const char* value : {"nan", "inf", "1e999", "x"}) {
    EXPECT_FALSE(CommandLine::Parse(kFlags, {"--seed", value})->GetDouble("seed").ok()) << value;
  }
}

TEST(CommandLine, SizesHaveUnitsOrAreBytes) {
  const auto bytes = [](const char* text) { return CommandLine::Parse(kFlags, {"--seed", text})->GetBytes("seed"); };
  EXPECT_EQ(bytes("80GB")->value(), 80'000'000'000);
  EXPECT_EQ(bytes("1.5GiB")->value(), int64_t{3} << 29);
  EXPECT_EQ(bytes("4096")->value(), 4096);
  for (const char* text : {"", "GB", "0", "-1GB", "80gb", "1GBMB", "nan", "1e30", "8 0"}) {
    EXPECT_THAT(bytes(text).status().message(), HasSubstr("--seed")) << text;
  }
}

TEST(CommandLine, DurationsHaveUnitsOrAreSeconds) {
  const auto duration = [](const char* text) {
    return CommandLine::Parse(kFlags, {"--seed", text})->GetDuration("seed");
  };
  EXPECT_EQ(duration("1h30m")->value(), absl::Minutes(90));
  EXPECT_EQ(duration("2.5")->value(), absl::Milliseconds(2500));
  EXPECT_FALSE(duration("-1s").ok());
  EXPECT_FALSE(duration("soon").ok());
}

TEST(CommandLine, HelpKeepsToItsWidth) {
  const std::string help =
      FormatFlags({{"a", "", std::string(40, 'w') + " " + std::string(40, 'w')}, {"b", "N", "short"}});
  EXPECT_EQ(help, absl::StrCat("  --a                         ", std::string(40, 'w'), "\n", std::string(30, ' '),
                               std::string(40, 'w'), "\n  --b N                       short\n"));
}

}  // namespace
}  // namespace kinora

#include "engine/base/command_line.h"

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

TEST(CommandLine, NamesThatOtherProgramsUseAreAccepted) {
  constexpr FlagSpec kOurs[] = {{"frame-rate", "FPS", ""}, {"frames", "N", ""}, {"cfg", "SCALE", ""}};
  const auto line = CommandLine::Parse(kOurs, {"--fps", "25", "--num_frames=9", "--guidance-scale", "4"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->Get("frame-rate"), "25");
  EXPECT_EQ(line->Get("frames"), "9");
  EXPECT_EQ(line->Get("cfg"), "4");
  EXPECT_FALSE(CommandLine::Parse(kFlags, {"--fps", "25"}).ok());  // a command without that flag
  constexpr FlagSpec kTheirs[] = {{"frame-rate", "FPS", ""}, {"fps", "FPS", ""}};
  EXPECT_TRUE(CommandLine::Parse(kTheirs, {"--fps", "25"})->Has("fps"));
}

TEST(CommandLine, AnUnknownFlagIsNamedWithTheNearest) {
  constexpr FlagSpec kMany[] = {
      {"width", "N", ""}, {"without-audio", "", ""}, {"seed", "N", ""}, {"output", "PATH", ""}};
  const auto message = [&](const char* argument) {
    return std::string(CommandLine::Parse(kMany, {argument}).status().message());
  };
  EXPECT_EQ(message("-w"), "-w: no such flag; did you mean --width?");
  EXPECT_EQ(message("--widht=7"), "--widht: no such flag; did you mean --width?");
  EXPECT_EQ(message("--wit"), "--wit: no such flag; did you mean --without-audio?");
  EXPECT_EQ(message("--audio"), "--audio: no such flag; did you mean --without-audio?");
  EXPECT_EQ(message("--sede"), "--sede: no such flag; did you mean --seed?");
  EXPECT_EQ(message("--nothing-like-it"), "--nothing-like-it: no such flag; --help lists them");
  EXPECT_THAT(message("-5 degrees"), HasSubstr("after --"));
}

TEST(CommandLine, LettersStandForFlagsThatTheCommandHas) {
  constexpr FlagSpec kSome[] = {{"output", "PATH", ""}, {"quiet", "", ""}};
  for (const std::vector<std::string>& spelled :
       {std::vector<std::string>{"-o", "x"}, {"-ox"}, {"-o=x"}, {"--output", "x"}}) {
    const auto line = CommandLine::Parse(kSome, spelled);
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(line->Get("output"), "x");
  }
  EXPECT_TRUE(CommandLine::Parse(kSome, {"-q"})->Has("quiet"));
  EXPECT_FALSE(CommandLine::Parse(kFlags, {"-q"}).ok());
  EXPECT_FALSE(CommandLine::Parse(kSome, {"-qq"}).ok());
  EXPECT_THAT(CommandLine::Parse(kSome, {"-"})->operands(), ElementsAre("-"));
}

TEST(CommandLine, AValueInBracketsMayBeLeftOutAndNeverTakesTheNextArgument) {
  constexpr FlagSpec kSwitch[] = {{"insecure", "[true|false]", ""}};
  const auto line = CommandLine::Parse(kSwitch, {"--insecure=false", "--insecure", "x"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->GetAll("insecure"), ElementsAre("false", ""));
  EXPECT_THAT(line->operands(), ElementsAre("x"));
}

TEST(CommandLine, FlagsBeforeTheFirstOperandAreCountedWithTheirValues) {
  const auto count = [](const std::vector<std::string>& arguments) {
    return CommandLine::CountBeforeOperands(kFlags, arguments);
  };
  EXPECT_EQ(count({"--seed", "4", "--json", "generate", "--seed", "5"}).value(), 3u);
  EXPECT_EQ(count({"--seed=4", "--", "x"}).value(), 1u);
  EXPECT_EQ(count({}).value(), 0u);
  EXPECT_THAT(count({"--sead", "4"}).status().message(), HasSubstr("--seed"));
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
  EXPECT_EQ(bytes("80gb")->value(), 80'000'000'000);
  EXPECT_EQ(bytes("80 GB")->value(), 80'000'000'000);
  EXPECT_EQ(bytes("24Gi")->value(), int64_t{24} << 30);
  EXPECT_EQ(bytes("512B")->value(), 512);
  for (const char* text : {"", "GB", "0", "-1GB", "1GBMB", "nan", "1e30", "8 0", "1xB", "1.5", "1.5B"}) {
    EXPECT_THAT(bytes(text).status().message(), HasSubstr("--seed")) << text;
  }
}

TEST(CommandLine, DurationsHaveUnitsOrAreSeconds) {
  const auto duration = [](const char* text) {
    return CommandLine::Parse(kFlags, {"--seed", text})->GetDuration("seed");
  };
  EXPECT_EQ(duration("1h30m")->value(), absl::Minutes(90));
  EXPECT_EQ(duration("2.5")->value(), absl::Milliseconds(2500));
  EXPECT_EQ(duration("1d")->value(), absl::Hours(24));
  EXPECT_EQ(duration("1.5d30m")->value(), absl::Hours(36) + absl::Minutes(30));
  for (const char* text : {"", "-1s", "-1", "soon", "d", "1d-1h", "1d2d", "1h1d", "inf", "1e9d", "nan"}) {
    EXPECT_THAT(duration(text).status().message(), HasSubstr("--seed")) << text;
  }
}

TEST(CommandLine, HelpKeepsToItsWidth) {
  const std::string help =
      FormatFlags({{"a", "", absl::StrCat(std::string(40, 'w'), " ", std::string(40, 'w'))}, {"b", "N", "short"}});
  EXPECT_EQ(help, absl::StrCat("  --a                         ", std::string(40, 'w'), "\n", std::string(30, ' '),
                               std::string(40, 'w'), "\n  --b N                       short\n"));
}

}  // namespace
}  // namespace kinora

#include "server/manual/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/ops/cuda_switches.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

ProgramManual ManualOf(const std::string& name) {
  for (ProgramManual& manual : AllManuals()) {
    if (manual.program.name == name) return std::move(manual);
  }
  ADD_FAILURE() << name;
  return {};
}

// Returns the lines that a shell command prints.
std::vector<std::string> LinesOf(const std::string& command) {
  FILE* const out = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  std::string text(1 << 16, '\0');
  text.resize(fread(text.data(), 1, text.size(), out));
  EXPECT_EQ(pclose(out), 0) << text;
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// Returns bash's completions for the last of `words`, which start with the program.
std::vector<std::string> Completed(const std::vector<std::string>& words) {
  const TemporaryDirectory directory;
  std::string line = absl::StrCat(". '", directory.File("completion"), "'; COMP_WORDS=('", absl::StrJoin(words, "' '"),
                                  "'); COMP_CWORD=", words.size() - 1, "; _");
  for (const char c : words[0]) line.push_back(c == '-' ? '_' : c);
  WriteFile(directory.File("completion"), BashCompletion(ManualOf(words[0])));
  WriteFile(directory.File("run"), line + "; printf '%s\n' \"${COMPREPLY[@]}\"\n");
  return LinesOf(absl::StrCat("bash '", directory.File("run"), "'"));
}

// Returns a line at zsh's prompt after completion with the tab key.
std::string ZshLine(const std::string& program, const std::string& line) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("_" + program), ZshCompletion(ManualOf(program)));
  WriteFile(directory.File("run"), R"(zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep
  show() { print -r -- \"<\$BUFFER>\"; exit }; zle -N show; bindkey '^X' show; bindkey '^I' expand-or-complete; print rea''dy"
zpty -r inner read '*ready*'
zpty -w -n inner "$2"$'\t\x18'
zpty -r inner read '*<*>*'
print -r -- "${${read##*<}%%>*}"
)");
  const std::vector<std::string> lines =
      LinesOf(absl::StrCat("timeout 60 zsh -f '", directory.File("run"), "' '", directory.path(), "' \"", line, "\""));
  return lines.empty() ? "" : lines.back();
}

// Returns fish's completions at the end of a line, without descriptions.
std::vector<std::string> FishOffers(const std::string& program, const std::string& line) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("completion"), FishCompletion(ManualOf(program)));
  std::vector<std::string> offers = LinesOf(
      absl::StrCat("fish --no-config -c 'source ", directory.File("completion"), "; complete -C \"", line, "\"'"));
  for (std::string& offer : offers) offer = offer.substr(0, offer.find('\t'));
  return offers;
}

TEST(Manuals, ThereIsOneOfEachProgramAndItNamesEveryFlag) {
  std::vector<std::string> names;
  for (const ProgramManual& manual : AllManuals()) {
    names.emplace_back(manual.program.name);
    std::vector<FlagSpec> flags = manual.flags;
    for (const CommandManual& command : manual.commands) {
      flags.insert(flags.end(), command.flags.begin(), command.flags.end());
    }
    const std::string page = ManPage(manual), bash = BashCompletion(manual), zsh = ZshCompletion(manual),
                      fish = FishCompletion(manual);
    for (const FlagSpec& flag : flags) {
      const std::string name(flag.name);
      EXPECT_THAT(page, HasSubstr("\\-\\-" + absl::StrJoin(absl::StrSplit(name, '-'), "\\-"))) << name;
      EXPECT_THAT(bash, HasSubstr("--" + name));
      EXPECT_THAT(zsh, HasSubstr("'*--" + name + "["));
      EXPECT_THAT(fish, HasSubstr(" -l " + name + " "));
    }
  }
  EXPECT_THAT(names, ElementsAre("kinora", "kinora-frontend", "kinora-gateway", "kinora-worker", "kinora-render"));
}

TEST(Manuals, DescriptionsOfFlagsBeginInLowerCaseAndEndWithoutAPeriod) {
  for (const ProgramManual& manual : AllManuals()) {
    std::vector<FlagSpec> flags = manual.flags;
    for (const CommandManual& command : manual.commands) {
      flags.insert(flags.end(), command.flags.begin(), command.flags.end());
    }
    for (const FlagSpec& flag : flags) {
      EXPECT_FALSE(absl::ascii_isupper(flag.help[0])) << manual.program.name << " --" << flag.name;
      EXPECT_NE(flag.help.back(), '.') << manual.program.name << " --" << flag.name;
    }
  }
}

// troff silently drops text that it reads as a macro or cannot parse.
TEST(Manuals, PagesAreWhatManReads) {
  for (const ProgramManual& manual : AllManuals()) {
    const std::string page = ManPage(manual);
    EXPECT_THAT(page, AllOf(StartsWith(".TH KINORA"), HasSubstr("\n.SH EXIT STATUS\n.TP\n\\fB0\\fR\n")));
    EXPECT_TRUE(std::all_of(page.begin(), page.end(), [](unsigned char c) { return absl::ascii_isascii(c); }))
        << manual.program.name;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(page, '\n'))) {
      if (line.empty() || line[0] != '.') continue;
      EXPECT_THAT((std::vector<std::string>{".TH", ".SH", ".SS", ".TP"}), Contains(line.substr(0, 3))) << line;
    }
  }
}

TEST(BashCompletion, OffersCommandsThenTheirFlagsThenWords) {
  EXPECT_THAT(Completed({"kinora", "gen"}), ElementsAre("generate"));
  EXPECT_THAT(Completed({"kinora", ""}), AllOf(Contains("admin"), Contains("list"), Contains("--server")));
  EXPECT_THAT(Completed({"kinora", "generate", "--wid"}), ElementsAre("--width"));
  EXPECT_THAT(Completed({"kinora", "generate", "a fox", "--recipe", "d"}),
              ElementsAre("distilled", "distilled_two_stage"));
  EXPECT_THAT(Completed({"kinora", "generate", "--container", "=", "w"}), ElementsAre("webm", "wav"));
  EXPECT_THAT(Completed({"kinora", "generate", "--seed", "7"}), IsEmpty());
  EXPECT_THAT(Completed({"kinora-frontend", "--store", ""}), ElementsAre("sqlite", "memory"));
  EXPECT_THAT(Completed({"kinora-worker", "--lifeline"}), IsEmpty());
}

TEST(BashCompletion, KnowsTheCommandWhereverItsFlagsStand) {
  EXPECT_THAT(Completed({"kinora", "--server", "here", "--json", "admin", ""}),
              ElementsAre("list", "drain", "restart"));
  EXPECT_THAT(Completed({"kinora", "admin", "drain", "--adm"}), ElementsAre("--admin-server"));
  EXPECT_THAT(Completed({"kinora", "admin", "list", "--stat"}), IsEmpty());
  EXPECT_THAT(Completed({"kinora", "list", "--stat"}), ElementsAre("--state"));
  EXPECT_THAT(Completed({"kinora", "help", "admin", "d"}), ElementsAre("drain"));
}

TEST(BashCompletion, OffersFilesWhereAFileIsMeant) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("model.safetensors"), "");
  const std::vector<std::string> found = {directory.File("model.safetensors")};
  EXPECT_EQ(Completed({"kinora-render", "--model", directory.File("mod")}), found);
  EXPECT_EQ(Completed({"kinora-render", "-o", directory.File("mod")}), found);
  EXPECT_EQ(Completed({"kinora-frontend", "--config", directory.File("mod")}), found);
}

TEST(ZshCompletion, CompletesCommandsFlagsWordsAndFiles) {
  EXPECT_EQ(ZshLine("kinora", "kinora gen"), "kinora generate ");
  EXPECT_EQ(ZshLine("kinora", "kinora admin dr"), "kinora admin drain ");
  EXPECT_EQ(ZshLine("kinora", "kinora generate --wid"), "kinora generate --width ");
  EXPECT_EQ(ZshLine("kinora", "kinora generate 'a fox' --recipe d"), "kinora generate 'a fox' --recipe distilled");
  EXPECT_EQ(ZshLine("kinora-frontend", "kinora-frontend --store m"), "kinora-frontend --store memory ");
  const TemporaryDirectory directory;
  WriteFile(directory.File("model.safetensors"), "");
  EXPECT_EQ(ZshLine("kinora-render", "kinora-render --model " + directory.File("mod")),
            "kinora-render --model " + directory.File("model.safetensors "));
}

TEST(FishCompletion, OffersCommandsFlagsWordsAndFiles) {
  EXPECT_THAT(FishOffers("kinora", "kinora gen"), ElementsAre("generate"));
  EXPECT_THAT(FishOffers("kinora", "kinora help admin d"), ElementsAre("drain"));
  EXPECT_THAT(FishOffers("kinora", "kinora generate --wid"), ElementsAre("--width"));
  EXPECT_THAT(FishOffers("kinora", "kinora generate fox --recipe d"), ElementsAre("distilled", "distilled_two_stage"));
  EXPECT_THAT(FishOffers("kinora-frontend", "kinora-frontend --store "), ElementsAre("memory", "sqlite"));
  const TemporaryDirectory directory;
  WriteFile(directory.File("model.safetensors"), "");
  EXPECT_THAT(FishOffers("kinora-render", "kinora-render --model " + directory.File("mod")),
              ElementsAre(directory.File("model.safetensors")));
}

TEST(Completion, ZshAndFishQuoteWhatHelpSays) {
  const std::string zsh = ZshCompletion(ManualOf("kinora-frontend")), fish = FishCompletion(ManualOf("kinora"));
  EXPECT_THAT(zsh, AllOf(StartsWith("#compdef kinora-frontend\n"), HasSubstr("default\\: 1000."),
                         HasSubstr(":sqlite|memory:(sqlite memory)'")));
  EXPECT_THAT(zsh, HasSubstr("the server'\\''s private key"));
  EXPECT_THAT(fish, AllOf(HasSubstr("-x -a 'mp4 webm png_frames wav'"), HasSubstr(" -l output -s o -r -F"),
                          Not(HasSubstr("lifeline"))));
}

TEST(ManPage, TellsOfEnvironmentVariablesAndOfAllValuesOfTheirFlags) {
  for (const char* program : {"kinora-worker", "kinora-render"}) {
    const std::string page = absl::StrReplaceAll(ManPage(ManualOf(program)), {{"\\-", "-"}});
    EXPECT_THAT(page, HasSubstr(".SH ENVIRONMENT\n.TP\n\\fBKINORA_CUDA_OFF=")) << program;
    const size_t flag = page.find("\\fB--cuda-off\\fR");
    ASSERT_NE(flag, std::string::npos) << program;
    const std::string help = page.substr(flag, page.find("\n.TP", flag) - flag);
    for (const std::string_view name : CudaSwitchNames()) EXPECT_THAT(help, HasSubstr(std::string(name))) << program;
  }
  EXPECT_THAT(ManPage(ManualOf("kinora")), Not(HasSubstr(".SH ENVIRONMENT")));
}

}  // namespace
}  // namespace kinora

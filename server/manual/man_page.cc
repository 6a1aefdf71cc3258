#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/version.h"
#include "server/manual/manual.h"

namespace kinora {
namespace {

// Escapes text so that it contains no macro.
std::string Escape(absl::string_view text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"…", "..."}, {"−", "\\-"}});
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string FlagEntries(const std::vector<FlagSpec>& flags) {
  std::string out;
  for (const FlagSpec& flag : flags) {
    const char letter = LetterOf(flag.name);
    const std::string short_form = letter == 0 ? "" : absl::StrCat("\\-", std::string(1, letter), ", ");
    const bool joined = absl::StartsWith(flag.value, "[");
    absl::StrAppend(
        &out, ".TP\n\\fB", short_form, "\\-\\-", Escape(flag.name), "\\fR", joined || flag.value.empty() ? "" : " ",
        flag.value.empty() ? "" : absl::StrCat("\\fI", Escape(flag.value), "\\fR"), "\n", Escape(flag.help), "\n");
  }
  return out;
}

// lines: entries of a term and its explanation, which more deeply indented lines continue. No lines: no section.
std::string Section(absl::string_view title, absl::string_view lines) {
  std::string out = lines.empty() ? "" : absl::StrCat(".SH ", title, "\n");
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipWhitespace())) {
    const absl::string_view entry = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(line, "     ")) {
      absl::StrAppend(&out, Escape(entry), "\n");
      continue;
    }
    const size_t end = entry.find(' ');
    absl::StrAppend(&out, ".TP\n\\fB", entry.substr(0, end), "\\fR\n",
                    Escape(absl::StripAsciiWhitespace(entry.substr(end))), "\n");
  }
  return out;
}

}  // namespace

std::string ManPage(const ProgramManual& manual) {
  const ProgramHelp& program = manual.program;
  std::string out =
      absl::StrCat(".TH ", absl::AsciiStrToUpper(Escape(program.name)), " 1 \"\" \"Kinora ", kBuildVersion,
                   "\"\n.SH NAME\n", Escape(program.name), " \\- ", Escape(program.summary), "\n.SH SYNOPSIS\n\\fB",
                   Escape(program.name), "\\fR ", Escape(program.synopsis), "\n");
  if (!manual.commands.empty()) absl::StrAppend(&out, ".SH COMMANDS\n");
  for (const CommandManual& command : manual.commands) {
    const std::string words = absl::StrJoin(command.words, " ");
    absl::StrAppend(&out, ".SS \\fB", Escape(words), "\\fR ", Escape(command.operands), "\n", Escape(command.help),
                    ".\n");
    std::vector<FlagSpec> own;  // shared flags are listed once, at the end
    for (const FlagSpec& flag : command.flags) {
      bool shared = false;
      for (const FlagSpec& other : manual.flags) shared |= other.name == flag.name;
      if (!shared) own.push_back(flag);
    }
    absl::StrAppend(&out, FlagEntries(own));
  }
  absl::StrAppend(&out,
                  manual.commands.empty()
                      ? ".SH OPTIONS\n"
                      : ".SH GLOBAL OPTIONS\nThese options apply to every command that calls a server.\n",
                  FlagEntries(manual.flags), Section("ENVIRONMENT", program.environment),
                  Section("EXIT STATUS", program.exit_statuses), ".SH SEE ALSO\n");
  std::vector<std::string> others;
  for (const char* name : {"kinora", "kinora-frontend", "kinora-render", "kinora-worker"}) {
    if (name != absl::string_view(program.name)) others.push_back(absl::StrCat("\\fB", Escape(name), "\\fR(1)"));
  }
  return absl::StrCat(out, absl::StrJoin(others, ", "), "\n");
}

}  // namespace kinora

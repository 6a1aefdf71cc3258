// Completes a flag's value from its FlagSpec: with words if `value` lists them as a|b|c in lower case, with files if it
// is FILE, FOLDER or PATH.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/manual/manual.h"

namespace kinora {
namespace {

bool TakesValue(const FlagSpec& flag) { return !flag.value.empty() && flag.value[0] != '['; }

// "cpu|cuda" -> {"cpu", "cuda"}, "sqlite|memory|URL" -> {"sqlite", "memory"}; empty if the value is not a list.
std::vector<std::string> WordsOf(const FlagSpec& flag) {
  std::vector<std::string> words = absl::StrSplit(flag.value, '|');
  if (words.size() == 1) return {};
  const auto plain = [](const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
    });
  };
  std::erase_if(words, [&](const std::string& word) { return !plain(word); });
  return words;
}

bool IsPath(const FlagSpec& flag) {
  for (absl::string_view word : absl::StrSplit(flag.value, '|')) {
    if (absl::EndsWith(word, "FILE") || word == "FOLDER" || word == "PATH") return true;
  }
  return false;
}

std::vector<std::string> Spellings(const FlagSpec& flag) {
  std::vector<std::string> spellings = {absl::StrCat("--", flag.name)};
  if (LetterOf(flag.name) != 0) spellings.push_back(absl::StrCat("-", std::string(1, LetterOf(flag.name))));
  return spellings;
}

std::string AllSpellings(const std::vector<FlagSpec>& flags) {
  std::vector<std::string> all;
  all.reserve(flags.size());
  for (const FlagSpec& flag : flags) all.push_back(absl::StrCat("--", flag.name));
  return absl::StrJoin(all, " ");
}

// Returns the name of the shell function.
std::string FunctionOf(const ProgramManual& manual) {
  return absl::StrCat("_", absl::StrReplaceAll(manual.program.name, {{"-", "_"}}));
}

// Quotes text for a shell.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// Returns the commands of `kinora admin` if `admin`, otherwise all others.
std::vector<const CommandManual*> Commands(const ProgramManual& manual, bool admin) {
  std::vector<const CommandManual*> found;
  for (const CommandManual& command : manual.commands) {
    if ((command.words.size() > 1) == admin) found.push_back(&command);
  }
  return found;
}

std::string Names(const ProgramManual& manual, bool admin) {
  std::vector<std::string> names;
  for (const CommandManual* command : Commands(manual, admin)) names.push_back(command->words.back());
  if (!admin && !manual.commands.empty()) names.insert(names.end(), {"admin", "help"});
  return absl::StrJoin(names, " ");
}

// Returns every flag of the program and its commands, each name once: the values of a flag do not depend on the
// command.
std::vector<FlagSpec> EveryFlag(const ProgramManual& manual) {
  std::vector<FlagSpec> all;
  const auto add = [&all](const std::vector<FlagSpec>& flags) {
    for (const FlagSpec& flag : flags) {
      if (std::none_of(all.begin(), all.end(), [&](const FlagSpec& f) { return f.name == flag.name; }))
        all.push_back(flag);
    }
  };
  add(manual.flags);
  for (const CommandManual& command : manual.commands) add(command.flags);
  return all;
}

std::string ZshFlag(const FlagSpec& flag) {
  const std::string help = absl::StrReplaceAll(flag.help, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
  const std::string value = absl::StrReplaceAll(flag.value, {{":", "\\:"}});
  std::string out;
  for (const std::string& spelling : Spellings(flag)) {
    std::string spec = absl::StrCat("*", spelling, "[", help, "]");
    if (TakesValue(flag)) {
      const std::vector<std::string> words = WordsOf(flag);
      absl::StrAppend(&spec, ":", value, ":",
                      !words.empty() ? absl::StrCat("(", absl::StrJoin(words, " "), ")")
                      : IsPath(flag) ? "_files"
                                     : " ");
    }
    absl::StrAppend(&out, " \\\n        ", Quote(spec));
  }
  return out;
}

std::string ZshArguments(const std::vector<FlagSpec>& flags, absl::string_view rest) {
  std::string out = "_arguments -s";
  for (const FlagSpec& flag : flags) absl::StrAppend(&out, ZshFlag(flag));
  return absl::StrCat(out, rest.empty() ? "" : " \\\n        ", rest, "\n");
}

std::string ZshCommands(const ProgramManual& manual, bool admin) {
  std::string out;
  for (const CommandManual* command : Commands(manual, admin)) {
    absl::StrAppend(&out, " ", Quote(absl::StrCat(command->words.back(), ":", command->help)));
  }
  return admin ? out : absl::StrCat(out, " 'admin:manage worker groups' 'help:show the help of a command'");
}

std::string ZshCases(const ProgramManual& manual, bool admin) {
  std::string out;
  for (const CommandManual* command : Commands(manual, admin)) {
    absl::StrAppend(&out, "      ", command->words.back(), ")\n        ",
                    ZshArguments(command->flags, "'*:operand:()'"), "        ;;\n");
  }
  return out;
}

std::string FishFlags(const ProgramManual& manual, const std::vector<FlagSpec>& flags, const std::string& condition) {
  std::string out;
  for (const FlagSpec& flag : flags) {
    absl::StrAppend(&out, "complete -c ", manual.program.name,
                    condition.empty() ? "" : absl::StrCat(" -n ", Quote(condition)), " -l ", flag.name);
    if (LetterOf(flag.name) != 0) absl::StrAppend(&out, " -s ", std::string(1, LetterOf(flag.name)));
    if (TakesValue(flag)) {
      const std::vector<std::string> words = WordsOf(flag);
      absl::StrAppend(&out, IsPath(flag) ? " -r -F" : " -x",
                      words.empty() ? "" : " -a " + Quote(absl::StrJoin(words, " ")));
    }
    absl::StrAppend(&out, " -d ", Quote(absl::StrReplaceAll(flag.help, {{"\\", "\\\\"}})), "\n");
  }
  return out;
}

// Returns "--recipe) …;;" for each flag with a value, and collects all spellings of these flags in `pattern`.
std::string BashValues(const ProgramManual& manual, std::string& pattern) {
  std::string out;
  for (const FlagSpec& flag : EveryFlag(manual)) {
    if (!TakesValue(flag)) continue;
    const std::string spellings = absl::StrJoin(Spellings(flag), "|");
    absl::StrAppend(&pattern, pattern.empty() ? "" : "|", spellings);
    const std::vector<std::string> words = WordsOf(flag);
    std::string reply = "COMPREPLY=()";
    if (!words.empty()) {
      reply = absl::StrCat("COMPREPLY=($(compgen -W ", Quote(absl::StrJoin(words, " ")), " -- \"$current\"))");
    } else if (IsPath(flag)) {
      reply = "compopt -o filenames 2> /dev/null; COMPREPLY=($(compgen -f -- \"$current\"))";
    }
    absl::StrAppend(&out, "    ", spellings, ") ", reply, "; return ;;\n");
  }
  return out;
}

// Returns "generate) words=…;;" for each command and for the words before a command.
std::string BashWords(const ProgramManual& manual) {
  std::string out;
  const auto add = [&out](absl::string_view pattern, absl::string_view words) {
    absl::StrAppend(&out, "    ", pattern, ") words=", Quote(words), " ;;\n");
  };
  add("''", absl::StrCat(Names(manual, false), manual.commands.empty() ? "" : " ", AllSpellings(manual.flags)));
  if (!manual.commands.empty()) {
    add("help", Names(manual, false));
    add("admin|'help admin'", Names(manual, true));
  }
  for (const CommandManual& command : manual.commands) {
    add(Quote(absl::StrJoin(command.words, " ")), AllSpellings(command.flags));
  }
  return out;
}

}  // namespace

std::string BashCompletion(const ProgramManual& manual) {
  std::string with_value;
  const std::string values = BashValues(manual, with_value);
  const std::string function = FunctionOf(manual);
  // The command is the one or two words before the cursor that are neither flags nor their values.
  return absl::StrCat("# bash completion of ", manual.program.name, "; made by the build\n", function, R"(() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command='' words='' i
  [[ $current == '=' ]] && current=''  # --name=VALUE is three words here
  [[ $before == '=' ]] && before=${COMP_WORDS[COMP_CWORD-2]}
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
    )",
                      with_value, R"() ((++i)); [[ ${COMP_WORDS[i]} == '=' ]] && ((++i)) ;;
    -*) ;;
    *) case $command in
       '') command=${COMP_WORDS[i]} ;;
       admin|help) command="$command ${COMP_WORDS[i]}" ;;
       esac ;;
    esac
  done
  case $before in
)",
                      values, R"(  esac
  case $command in
)",
                      BashWords(manual), R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F )",
                      function, " ", manual.program.name, "\n");
}

std::string ZshCompletion(const ProgramManual& manual) {
  const std::string head = absl::StrCat("#compdef ", manual.program.name, "\n# zsh completion; made by the build\n");
  const std::string function = FunctionOf(manual);
  if (manual.commands.empty()) {
    return absl::StrCat(head, function, "() {\n  ", ZshArguments(manual.flags, ""), "}\n", function, " \"$@\"\n");
  }
  return absl::StrCat(head, function, "() {\n  local -a commands administration\n  local state line\n  commands=(",
                      ZshCommands(manual, false), ")\n  administration=(", ZshCommands(manual, true), ")\n  ",
                      ZshArguments(manual.flags, "'1: :->command' '*:: :->argument'"), R"(  case $state in
  command) _describe command commands ;;
  argument)
    if [[ $words[1] == admin ]]; then
      if (( CURRENT == 2 )); then
        _describe command administration
        return
      fi
      shift words
      (( CURRENT-- ))
      case $words[1] in
)",
                      ZshCases(manual, true), R"(      esac
      return
    fi
    case $words[1] in
      help) _describe command commands ;;
)",
                      ZshCases(manual, false), "    esac\n    ;;\n  esac\n}\n", function, " \"$@\"\n");
}

std::string FishCompletion(const ProgramManual& manual) {
  std::string out = absl::StrCat("# fish completion of ", manual.program.name, "; made by the build\n");
  absl::StrAppend(&out, "complete -c ", manual.program.name, " -f\n");
  if (manual.commands.empty()) return out + FishFlags(manual, manual.flags, "");
  absl::StrAppend(&out, FishFlags(manual, manual.flags, "__fish_use_subcommand"));
  for (bool admin : {false, true}) {
    for (const CommandManual* command : Commands(manual, admin)) {
      const std::string& name = command->words.back();
      absl::StrAppend(
          &out, "complete -c ", manual.program.name, " -n ",
          admin ? Quote(absl::StrCat("__fish_seen_subcommand_from admin; and not __fish_seen_subcommand_from ",
                                     Names(manual, true)))
                : "'__fish_use_subcommand'",
          " -a ", name, " -d ", Quote(command->help), "\n",
          FishFlags(manual, command->flags,
                    absl::StrCat(admin ? "" : "not ",
                                 "__fish_seen_subcommand_from admin; and __fish_seen_subcommand_from ", name)));
    }
  }
  for (const auto& [name, help] :
       {std::pair{"admin", "manage worker groups"}, {"help", "show the help of a command"}}) {
    absl::StrAppend(&out, "complete -c ", manual.program.name, " -n '__fish_use_subcommand' -a ", name, " -d ",
                    Quote(help), "\n");
  }
  return out;
}

}  // namespace kinora

// Flags of one command: declared in a table, parsed once, and listed by --help, manual pages and shell completion from
// the same table.
//   --name VALUE, --name=VALUE, --name (a flag without a value), -- (the rest are operands). A flag may be given again;
//   Get returns the last, GetAll all of them. One letter is one flag in every program that has it: -h --help,
//   -o --output, -q --quiet, -V --version; -o VALUE or -oVALUE. A dash alone is an operand.
#ifndef KINORA_ENGINE_BASE_COMMAND_LINE_H_
#define KINORA_ENGINE_BASE_COMMAND_LINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace kinora {

struct FlagSpec {
  absl::string_view name;  // without dashes
  // How --help names the value: "N"; "cpu|cuda": one of these words; FILE and what ends in FILE, FOLDER or PATH: a
  // path. Empty: the flag takes none. In brackets: it may be left out, and is given as --name=VALUE alone.
  absl::string_view value;
  absl::string_view help;
};

// --help and --version, which every command has.
absl::Span<const FlagSpec> StandardFlags();
// The letter that stands for a flag; 0: none does.
char LetterOf(absl::string_view flag);

class CommandLine {
 public:
  // InvalidArgument names the flag: unknown, with the nearest one there is; without its value; or with one that it does
  // not take.
  static absl::StatusOr<CommandLine> Parse(absl::Span<const FlagSpec> flags, absl::Span<const std::string> arguments);
  // How many of `arguments` are flags that stand before the first operand, with their values. Errors as Parse's.
  static absl::StatusOr<size_t> CountBeforeOperands(absl::Span<const FlagSpec> flags,
                                                    absl::Span<const std::string> arguments);

  bool Has(absl::string_view name) const { return values_.contains(name); }
  std::optional<std::string> Get(absl::string_view name) const;
  std::vector<std::string> GetAll(absl::string_view name) const;
  // Absent flag: nullopt. A value that does not parse, or is not finite: InvalidArgument naming the flag.
  absl::StatusOr<std::optional<int64_t>> GetInt(absl::string_view name, int64_t minimum, int64_t maximum) const;
  absl::StatusOr<std::optional<int64_t>> GetBytes(absl::string_view name) const;  // ParseBytes
  absl::StatusOr<std::optional<uint64_t>> GetUint64(absl::string_view name) const;
  absl::StatusOr<std::optional<double>> GetDouble(absl::string_view name) const;
  absl::StatusOr<std::optional<absl::Duration>> GetDuration(absl::string_view name) const;  // ParseDurationText

  const std::vector<std::string>& operands() const { return operands_; }
  // Each flag as it was given, in order; a flag without a value has an empty one.
  const std::vector<std::pair<std::string, std::string>>& given() const { return given_; }

 private:
  // Reads the flag at arguments[i] and its value; the index after it.
  absl::StatusOr<size_t> TakeFlag(absl::Span<const FlagSpec> flags, absl::Span<const std::string> arguments, size_t i);

  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<std::string> operands_;
};

// A size, "80GB", "24GiB", "1.5 MB", in any case, with or without the B; no unit: whole bytes. At least 1 and at most
// 2^62.
std::optional<int64_t> ParseBytes(absl::string_view text);
// "90s", "1h30m", "1d", "1.5d12h"; no unit: seconds. Finite and not negative.
std::optional<absl::Duration> ParseDurationText(absl::string_view text);

// The one that was probably meant: the shortest that begins with `word`, else the one with the fewest letters to
// change, at most a third of them and two; "": none.
absl::string_view NearestWord(absl::string_view word, absl::Span<const absl::string_view> words);

// One line per flag, indented, wrapped at 100 columns.
std::string FormatFlags(absl::Span<const FlagSpec> flags);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_COMMAND_LINE_H_

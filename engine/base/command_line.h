// Flags of one command, declared in a table and parsed once; --help, manual pages and shell completion list the same
// table.
//   --name VALUE, --name=VALUE, --name (a flag without a value), -- (the rest are operands). A flag may be repeated:
//   Get returns the last value, GetAll all of them.
// Short flags mean the same in every program that has them: -h --help, -o --output, -q --quiet, -V --version; -o VALUE
// or -oVALUE. A dash alone is an operand. --a_b is --a-b. Names that other programs use are accepted as unlisted
// synonyms if the table has no flag of that name: --fps for --frame-rate.
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
  // The value's name in --help: "N"; "cpu|cuda" lists the accepted words; FOLDER, PATH and names ending in FILE are
  // paths. Empty: the flag takes no value. In brackets: the value is optional and accepted only as --name=VALUE.
  absl::string_view value;
  absl::string_view help;
};

// --help and --version, which every command has.
absl::Span<const FlagSpec> StandardFlags();
// Returns the flag's short form; 0 if it has none.
char LetterOf(absl::string_view flag);

class CommandLine {
 public:
  // Fails with InvalidArgument, naming the flag, if it is unknown (and suggests the nearest one), lacks its value, or
  // has a value that it does not take.
  static absl::StatusOr<CommandLine> Parse(absl::Span<const FlagSpec> flags, absl::Span<const std::string> arguments);
  // Returns the number of `arguments` before the first operand or "--": flags and their values. Errors as Parse's.
  static absl::StatusOr<size_t> CountBeforeOperands(absl::Span<const FlagSpec> flags,
                                                    absl::Span<const std::string> arguments);

  bool Has(absl::string_view name) const { return values_.contains(name); }
  std::optional<std::string> Get(absl::string_view name) const;
  std::vector<std::string> GetAll(absl::string_view name) const;
  // Returns nullopt if the flag is absent. Fails with InvalidArgument, naming the flag, if its value does not parse, is
  // out of range or is not finite.
  absl::StatusOr<std::optional<int64_t>> GetInt(absl::string_view name, int64_t minimum, int64_t maximum) const;
  absl::StatusOr<std::optional<int64_t>> GetBytes(absl::string_view name) const;  // ParseBytes
  absl::StatusOr<std::optional<uint64_t>> GetUint64(absl::string_view name) const;
  absl::StatusOr<std::optional<double>> GetDouble(absl::string_view name) const;
  absl::StatusOr<std::optional<absl::Duration>> GetDuration(absl::string_view name) const;  // ParseDurationText

  const std::vector<std::string>& operands() const { return operands_; }
  // The flags by their full names, in the order given; the value is empty for a flag without one.
  const std::vector<std::pair<std::string, std::string>>& given() const { return given_; }

 private:
  // Reads the flag at arguments[i] and its value; returns the index after them.
  absl::StatusOr<size_t> TakeFlag(absl::Span<const FlagSpec> flags, absl::Span<const std::string> arguments, size_t i);

  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<std::string> operands_;
};

// Parses a size: "80GB", "24GiB", "1.5 MB"; case-insensitive, the B is optional, and without a unit it is whole bytes.
// From 1 to 2^62 bytes.
std::optional<int64_t> ParseBytes(absl::string_view text);
// Parses a duration: "90s", "1h30m", "1d", "1.5d12h"; without a unit, seconds. Finite and not negative.
std::optional<absl::Duration> ParseDurationText(absl::string_view text);

// Returns the word that was probably meant, "" if none: the shortest that begins with `word`; else the first that
// contains `word` as whole dash-separated parts; else the one at the smallest edit distance, at most 2 and (letters +
// 1) / 3.
absl::string_view NearestWord(absl::string_view word, absl::Span<const absl::string_view> words);

// One line per flag, indented, wrapped at 100 columns.
std::string FormatFlags(absl::Span<const FlagSpec> flags);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_COMMAND_LINE_H_
